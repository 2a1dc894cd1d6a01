//! How far the inside of a JSON string goes in which nothing is escaped.

/// Bytes before the first quote, backslash or control character; all of them when there is none.
#[inline]
pub(in crate::wire) fn length(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let (words, tail) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // The classic zero-byte test, for three conditions at once. The lowest set bit is exact: a borrow
        // only ever disturbs bytes above a true hit.
        let below = |limit: u64| word.wrapping_sub(ONES * limit) & !word & HIGHS;
        let equal = |byte: u64| {
            let difference = word ^ (ONES * byte);
            difference.wrapping_sub(ONES) & !difference & HIGHS
        };
        let hits = below(0x20) | equal(u64::from(b'"')) | equal(u64::from(b'\\'));
        if hits != 0 {
            return index * 8 + (hits.trailing_zeros() / 8) as usize;
        }
    }
    let end = tail.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..=0x1f)).unwrap_or(tail.len());
    words.len() * 8 + end
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_special_byte_ends_it_at_every_place() {
        for special in (0..0x20).chain([b'"', b'\\']) {
            for place in 0..40 {
                let mut bytes = vec![b'x'; 40];
                bytes[place] = special;
                assert_eq!(length(&bytes), place, "{special:#x}");
            }
        }
    }

    proptest! {
        #[test]
        fn it_is_what_a_look_at_each_byte_says(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
            prop_assert_eq!(length(&bytes), bytes.iter().position(special).unwrap_or(bytes.len()));
        }
    }
}
