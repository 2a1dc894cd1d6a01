//! The tokenizers of several models: whose requests are counted with which.

use crate::tokenizer::Tokenizer;

/// Models and their tokenizers, at least one.
#[derive(Clone, Debug)]
pub struct Tokenizers {
    /// The model asked for first, and what synthetic prompts are made with.
    first: (String, Tokenizer),
    others: Vec<(String, Tokenizer)>,
}

impl From<Tokenizer> for Tokenizers {
    /// One for all models.
    fn from(tokenizer: Tokenizer) -> Self {
        Self::of_first("", tokenizer)
    }
}

impl Tokenizers {
    /// That of the first model; [`Tokenizers::add`] adds those of others.
    pub fn of_first(model: &str, tokenizer: Tokenizer) -> Self {
        Self { first: (model.to_owned(), tokenizer), others: Vec::new() }
    }

    /// Adds that of another model.
    pub fn add(&mut self, model: &str, tokenizer: Tokenizer) {
        self.others.push((model.to_owned(), tokenizer));
    }

    /// That of the first model, which counts whatever no other does.
    pub const fn first(&self) -> &Tokenizer {
        &self.first.1
    }

    /// The number of the tokenizer that counts requests for `model`; 0 is the first.
    pub fn number_of(&self, model: &str) -> u16 {
        if self.first.0 == model {
            return 0;
        }
        let place = self.others.iter().position(|(known, _)| known == model);
        place.and_then(|place| u16::try_from(place + 1).ok()).unwrap_or(0)
    }

    /// The tokenizer of this number; the first for one that there is not.
    pub fn numbered(&self, number: u16) -> &Tokenizer {
        let other = usize::from(number).checked_sub(1).and_then(|place| self.others.get(place));
        match other {
            Some((_, tokenizer)) => tokenizer,
            None => self.first(),
        }
    }

    /// Their names, each once, with commas between them.
    pub fn name(&self) -> String {
        let mut names = vec![self.first().name()];
        for (_, tokenizer) in &self.others {
            if !names.contains(&tokenizer.name()) {
                names.push(tokenizer.name());
            }
        }
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_model_has_its_own_and_strangers_have_the_first() -> Result<(), crate::tokenizer::TokenizerError> {
        let mut both = Tokenizers::of_first("a", Tokenizer::load("o200k_base")?);
        both.add("b", Tokenizer::load("p50k_base")?);
        both.add("c", Tokenizer::load("p50k_base")?);
        let counts = |model: &str| both.numbered(both.number_of(model)).name().to_owned();
        assert_eq!(["a", "b", "c", "d"].map(counts), ["o200k_base", "p50k_base", "p50k_base", "o200k_base"]);
        assert_eq!(both.name(), "o200k_base, p50k_base");
        assert_eq!(both.numbered(7).name(), "o200k_base");
        Ok(())
    }
}
