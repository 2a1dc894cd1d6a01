//! What a section asks of a value, as data: the shape of a config, learnt from the code that reads it.
//!
//! Nothing is written down while a config is read for its meaning.

use crate::config::keys::Bound;

/// What is asked of one value.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// It may be anything.
    Anything,
    /// A number or a law with its parameters.
    Distribution,
    /// Seconds, or a number with a unit.
    Duration(Bound),
    /// A list of mappings.
    Items,
    /// A list of values.
    List,
    /// It may be null.
    Null,
    /// A number.
    Number(Bound),
    /// A mapping with keys of any name.
    Open,
    /// A mapping with known keys.
    Section,
    /// True or false.
    Switch,
    /// A text.
    Text,
    /// A list of texts.
    Texts,
    /// Nothing yet: the key is known.
    Value,
    /// A whole number from the one to the other.
    Whole(i128, i128),
    /// One of these words.
    Words(Vec<&'static str>),
}
