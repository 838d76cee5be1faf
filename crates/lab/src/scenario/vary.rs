//! Parameters of a scenario: their defaults, or values drawn from a seed.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::problem::Problem;
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
    /// Draws the values for the text of a scenario.
    pub(super) fn draw(text: &str, seed: Option<u64>) -> Result<Self, Problem> {
        let parameters: Parameters = toml::from_str(text)?;
        let mut random = seed.map(fastrand::Rng::with_seed);
        let mut values = BTreeMap::new();
        for (name, parameter) in parameters.vary {
            let plain = parameter.get_ref();
            let value = match (plain.min, plain.max, plain.choices.as_slice()) {
                (Some(min), Some(max), []) if min <= max && (max - min).is_finite() => {
                    random.as_mut().map(|random| draw_between(random, min, max))
                }
                (None, None, [_, ..]) => {
                    let choice = random.as_mut().and_then(|random| random.choice(&plain.choices));
                    choice.copied()
                }
                _ => {
                    let what = format!(
                        "the parameter {name} needs either min and max, in this order of size, or \
                         choices"
                    );
                    return Err(Problem::at(&parameter, what));
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

    /// All values, in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// The text with the values in it; any other `${...}` stays.
    pub(super) fn substitute(&self, text: &str) -> String {
        self.0.iter().fold(text.to_string(), |text, (name, value)| {
            text.replace(&format!("${{{name}}}"), &value.to_string())
        })
    }
}

/// A value of a range; a whole number if both ends are.
fn draw_between(random: &mut fastrand::Rng, min: f64, max: f64) -> f64 {
    if min.fract() == 0.0 && max.fract() == 0.0 {
        min + random.u64(0..=(max - min) as u64) as f64
    } else {
        // Three decimals, so that a person can repeat it.
        let value = min + random.f64() * (max - min);
        (value * 1000.0).round() / 1000.0
    }
}
