//! What `${NAME}` stands for in a scenario: addresses, folders, programs.

use crate::plan::Plan;
use crate::scenario::Scenario;

/// The text with what `${NAME}` stands for in it; `Err` has the first unknown name.
pub(crate) fn fill(
    text: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> std::result::Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        // `$${` is a plain `${`.
        if let Some(escaped) = before.strip_suffix('$') {
            out.truncate(out.len() - (before.len() - escaped.len()));
            out.push_str("${");
            rest = &from[2..];
            continue;
        }
        let Some(end) = from.find('}') else {
            return Err(from[2..].chars().take(20).collect());
        };
        let name = &from[2..end];
        out.push_str(&lookup(name).ok_or_else(|| name.to_string())?);
        rest = &from[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

/// What a name stands for, in a lab whose folder is `dir` and whose hosts have these first processes.
pub(crate) fn lookup(
    plan: &Plan,
    scenario: &Scenario,
    name: &str,
    dir: &str,
    pid: &dyn Fn(&str) -> Option<u32>,
) -> Option<String> {
    match name {
        "seconds" => Some(scenario.workload.lasts.0.as_secs_f64().ceil().to_string()),
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

/// The php-fpm of this machine: Debian's has its version in its name.
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
    use super::fill;

    #[test]
    fn names_are_filled_in_and_unknown_ones_told() {
        let lookup = |name: &str| (name == "a").then(|| "1".to_string());
        assert_eq!(fill("x ${a} $b ${a}", &lookup), Ok("x 1 $b 1".into()));
        assert_eq!(fill("$${a} $$ ${a}", &lookup), Ok("${a} $$ 1".into()));
        assert_eq!(fill("${b}", &lookup), Err("b".into()));
        assert_eq!(fill("${a", &lookup), Err("a".into()));
    }
}
