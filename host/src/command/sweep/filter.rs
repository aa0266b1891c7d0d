//! Which configurations of the space are swept.

use crate::command::exit::Failure;
use clap::builder::PossibleValuesParser;
use regemm_report::sweep::Config;
use regemm_report::sweep::groups::{ORDERS, STAGINGS};

/// Options that pick configurations; what is not named is not restricted.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Filter {
    /// Only these loop orders, comma-separated
    #[arg(long, value_name = "ORDER", value_delimiter = ',', value_parser = PossibleValuesParser::new(ORDERS))]
    pub order: Vec<String>,
    /// Only these block tiles, comma-separated: BMxBNxBK
    #[arg(long, value_name = "BMxBNxBK", value_delimiter = ',', value_parser = block_tile)]
    pub tile: Vec<String>,
    /// Only these thread tiles, comma-separated: TMxTN
    #[arg(long, value_name = "TMxTN", value_delimiter = ',', value_parser = thread_tile)]
    pub thread_tile: Vec<String>,
    /// Only these stagings, comma-separated
    #[arg(long, value_name = "STAGING", value_delimiter = ',', value_parser = PossibleValuesParser::new(STAGINGS))]
    pub staging: Vec<String>,
}

impl Filter {
    /// Whether a configuration is picked.
    pub fn takes(&self, config: &Config) -> bool {
        let allows =
            |names: &[String], name: &str| names.is_empty() || names.iter().any(|n| n == name);
        allows(&self.order, &config.order)
            && allows(&self.tile, &config.block_tile())
            && allows(&self.thread_tile, &config.thread_tile())
            && allows(&self.staging, &config.staging)
    }

    /// Keeps what is picked.
    ///
    /// # Errors
    /// Nothing is: which tiles there are.
    pub fn apply<S>(
        &self,
        subjects: &mut Vec<S>,
        config: impl Fn(&S) -> &Config,
    ) -> Result<(), Failure> {
        let distinct = |name: fn(&Config) -> String| {
            let mut names: Vec<String> = Vec::new();
            for subject in subjects.iter() {
                let name = name(config(subject));
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            names.join(", ")
        };
        let (blocks, threads) = (distinct(Config::block_tile), distinct(Config::thread_tile));
        subjects.retain(|subject| self.takes(config(subject)));
        if subjects.is_empty() {
            return Err(Failure::Usage(format!(
                "the space has no such configuration; its block tiles are {blocks}, its thread tiles {threads}; loop \
                 orders other than k_innermost and stagings other than single only go with some of them, and with each \
                 other only where the staging is direct"
            )));
        }
        Ok(())
    }
}

/// Reads a block tile; the text in the form of [`Config::block_tile`].
pub fn block_tile(text: &str) -> Result<String, String> {
    tile(text, 3).ok_or_else(|| "a block tile is BMxBNxBK, such as 64x64x32".to_owned())
}

/// Reads a thread tile; the text in the form of [`Config::thread_tile`].
pub fn thread_tile(text: &str) -> Result<String, String> {
    tile(text, 2).ok_or_else(|| "a thread tile is TMxTN, such as 8x4".to_owned())
}

fn tile(text: &str, sizes: usize) -> Option<String> {
    let numbers: Option<Vec<u32>> = text.split('x').map(|number| number.parse().ok()).collect();
    let numbers = numbers.filter(|numbers| numbers.len() == sizes && !numbers.contains(&0))?;
    Some(numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join("x"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(bm: u32, tm: u32, order: &str, staging: &str) -> Config {
        Config { bm, bn: 64, bk: 32, tm, tn: 4, order: order.into(), staging: staging.into() }
    }

    #[test]
    fn what_is_not_named_is_not_restricted() {
        let all = [
            config(64, 8, "k_innermost", "single"),
            config(64, 4, "standard", "single"),
            config(32, 8, "k_innermost", "async2"),
        ];
        let taken =
            |filter: &Filter| all.iter().map(|config| filter.takes(config)).collect::<Vec<_>>();
        assert_eq!(taken(&Filter::default()), [true, true, true]);
        let filter = Filter { tile: vec!["64x64x32".into()], ..Filter::default() };
        assert_eq!(taken(&filter), [true, true, false]);
        let filter = Filter { thread_tile: vec!["8x4".into()], ..filter };
        assert_eq!(taken(&filter), [true, false, false]);
        let filter = Filter {
            order: vec!["standard".into(), "k_innermost".into()],
            staging: vec!["async2".into()],
            ..Filter::default()
        };
        assert_eq!(taken(&filter), [false, false, true]);
    }

    #[test]
    fn an_empty_choice_says_what_there_is() {
        let mut subjects = vec![config(64, 8, "k_innermost", "single")];
        let filter = Filter { tile: vec!["16x16x16".into()], ..Filter::default() };
        let failure = filter.apply(&mut subjects, |config| config).unwrap_err();
        assert!(failure.to_string().contains("64x64x32"), "{failure}");
    }

    #[test]
    fn tiles_are_read_in_one_form() {
        assert_eq!(block_tile("064x64x8"), Ok("64x64x8".to_owned()));
        assert_eq!(thread_tile("8x16"), Ok("8x16".to_owned()));
        for wrong in ["", "8", "8x", "8x0", "8x-4", "8x4x2", "axb"] {
            assert!(thread_tile(wrong).is_err(), "{wrong}");
        }
        assert!(block_tile("64x64").is_err());
    }
}
