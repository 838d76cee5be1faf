//! Parameters of a scenario: as they stand, or drawn by a seed.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Wrong;
use super::types::Parameter;

/// Values of the parameters of one run.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct Values(BTreeMap<String, f64>);

/// The part of a scenario that can be read before its parameters are known.
#[derive(Deserialize)]
struct Parameters {
    #[serde(default)]
    vary: BTreeMap<String, toml::Spanned<Parameter>>,
}

impl Values {
    /// Draws the values of a scenario's text.
    pub(super) fn draw(text: &str, seed: Option<u64>) -> Result<Self, Wrong> {
        let parameters: Parameters = toml::from_str(text)
            .map_err(|error| Wrong { at: error.span(), what: error.message().to_string() })?;
        let mut random = seed.map(fastrand::Rng::with_seed);
        let mut values = BTreeMap::new();
        for (name, parameter) in parameters.vary {
            let plain = parameter.get_ref();
            let value = match (plain.from, plain.to, plain.choices.as_slice()) {
                (Some(from), Some(to), []) if from <= to && (to - from).is_finite() => {
                    random.as_mut().map(|random| between(random, from, to))
                }
                (None, None, [_, ..]) => {
                    let choice = random.as_mut().and_then(|random| random.choice(&plain.choices));
                    choice.copied()
                }
                _ => {
                    let what = format!(
                        "the parameter {name} needs either from and to, in order, or choices"
                    );
                    return Err(Wrong::at(&parameter, what));
                }
            };
            values.insert(name, value.unwrap_or(plain.default));
        }
        Ok(Values(values))
    }

    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// All, in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// The text with the values in it; other `${...}` stay.
    pub(super) fn put_into(&self, text: &str) -> String {
        self.0.iter().fold(text.to_string(), |text, (name, value)| {
            text.replace(&format!("${{{name}}}"), &value.to_string())
        })
    }
}

/// A value of a range; a whole number where both ends are.
fn between(random: &mut fastrand::Rng, from: f64, to: f64) -> f64 {
    if from.fract() == 0.0 && to.fract() == 0.0 {
        from + random.u64(0..=(to - from) as u64) as f64
    } else {
        // Three digits are enough for a person who repeats it.
        let value = from + random.f64() * (to - from);
        (value * 1000.0).round() / 1000.0
    }
}
