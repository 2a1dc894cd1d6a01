//! Turns of a conversation into payloads, replies into texts and usage, per endpoint type.
