//! What `${NAME}` stands for in a scenario: addresses, directories, programs.

use crate::plan::Plan;
use crate::scenario::Scenario;

/// Maximum length of an unknown name in an error, characters.
const MAX_REPORTED_NAME: usize = 20;

/// The text with every `${NAME}` replaced; `Err` has the first unknown name. `$${` is a plain `${`.
pub(crate) fn substitute(
    text: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> std::result::Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = after;
            continue;
        }
        let Some((name, behind)) = after.split_once('}') else {
            return Err(after.chars().take(MAX_REPORTED_NAME).collect());
        };
        out.push_str(before);
        out.push_str(&lookup(name).ok_or_else(|| name.to_string())?);
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

/// What a name stands for in a lab with this directory; `pid` gives process 1 of a host.
pub(crate) fn lookup(
    plan: &Plan,
    scenario: &Scenario,
    name: &str,
    dir: &str,
    pid: &dyn Fn(&str) -> Option<u32>,
) -> Option<String> {
    match name {
        "seconds" => Some(scenario.workload.duration.0.as_secs_f64().ceil().to_string()),
        "php_fpm" => Some(php_fpm().unwrap_or_else(|| "php-fpm".to_string())),
        _ => {
            let (host, part) = name.split_once('.').map_or((name, None), |(h, p)| (h, Some(p)));
            match part {
                Some("dir") => scenario.hosts.contains_key(host).then(|| format!("{dir}/{host}")),
                Some("pid") => pid(host).map(|pid| pid.to_string()),
                None => plan.address(host, None).map(|address| address.v4.to_string()),
                Some("6") => plan.address(host, None).map(|address| address.v6.to_string()),
                Some(peer) => plan.address(host, Some(peer)).map(|address| address.v4.to_string()),
            }
        }
    }
}

/// The php-fpm of this machine: on Debian its name includes the version.
fn php_fpm() -> Option<String> {
    let mut names: Vec<String> = std::fs::read_dir("/usr/sbin")
        .ok()?
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("php-fpm"))
        .collect();
    names.sort();
    names.pop()
}

#[cfg(test)]
mod tests {
    use super::substitute;

    #[test]
    fn names_are_substituted_and_unknown_ones_reported() {
        let lookup = |name: &str| (name == "a").then(|| "1".to_string());
        assert_eq!(substitute("x ${a} $b ${a}", &lookup), Ok("x 1 $b 1".into()));
        assert_eq!(substitute("$${a} $$ ${a}", &lookup), Ok("${a} $$ 1".into()));
        assert_eq!(substitute("${b}", &lookup), Err("b".into()));
        assert_eq!(substitute("${a", &lookup), Err("a".into()));
    }
}
