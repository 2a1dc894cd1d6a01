//! What an operation carries through the kernel: 8 bits of operation, 24 of index, 32 of generation.

/// The kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Accepting connections, many times.
    Accept,
    /// Cancelling another operation.
    Cancel,
    /// Closing the descriptor.
    Close,
    /// Connecting.
    Connect,
    /// Receiving, many times.
    Receive,
    /// Receiving, many times, with the time at which the kernel received.
    ReceiveStamped,
    /// Sending.
    Send,
}

/// An operation of one life of one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// The kind.
    pub(crate) operation: Operation,
    /// The socket's slot, at most [`Token::INDEX_MAX`].
    pub(crate) index: u32,
    /// The life of that slot.
    pub(crate) generation: u32,
}

impl Token {
    /// The highest index, which no socket has.
    pub(crate) const INDEX_MAX: u32 = (1 << 24) - 1;

    /// As the kernel carries it.
    pub(crate) fn pack(self) -> u64 {
        let operation: u64 = match self.operation {
            Operation::Accept => 1,
            Operation::Cancel => 2,
            Operation::Close => 3,
            Operation::Connect => 4,
            Operation::Receive => 5,
            Operation::Send => 6,
            Operation::ReceiveStamped => 7,
        };
        debug_assert!(self.index <= Self::INDEX_MAX, "the index takes more than 24 bits");
        operation << 56 | u64::from(self.index) << 32 | u64::from(self.generation)
    }

    /// Back from the kernel; nothing when it is none of ours.
    pub(crate) fn unpack(bits: u64) -> Option<Self> {
        let operation = match bits >> 56 {
            1 => Operation::Accept,
            2 => Operation::Cancel,
            3 => Operation::Close,
            4 => Operation::Connect,
            5 => Operation::Receive,
            6 => Operation::Send,
            7 => Operation::ReceiveStamped,
            _ => return None,
        };
        #[expect(clippy::cast_possible_truncation, reason = "the fields are cut out on purpose")]
        let (index, generation) = ((bits >> 32) as u32 & Self::INDEX_MAX, bits as u32);
        Some(Self { operation, index, generation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_from_the_kernel_unchanged() {
        let operations = [
            Operation::Accept,
            Operation::Cancel,
            Operation::Close,
            Operation::Connect,
            Operation::Receive,
            Operation::Send,
        ];
        for operation in operations {
            for index in [0, 1, 65_536, Token::INDEX_MAX] {
                for generation in [0, 1, u32::MAX] {
                    let token = Token { operation, index, generation };
                    assert_eq!(Token::unpack(token.pack()), Some(token));
                }
            }
        }
    }

    #[test]
    fn what_is_not_ours_is_no_token() {
        assert_eq!(Token::unpack(0), None);
        assert_eq!(Token::unpack(u64::MAX), None);
    }
}
