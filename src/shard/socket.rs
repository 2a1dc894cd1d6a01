//! Options of the client's sockets: AIPerf's, but that the kernel sizes the buffers unless it is told.

use crate::time::Nanos;
use socket2::Socket;
use socket2::TcpKeepalive;

/// What is set on every connection before it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// Silence before the first probe.
    pub keepalive_idle: Nanos,
    /// From one probe to the next.
    pub keepalive_interval: Nanos,
    /// Probes without an answer that end a connection.
    pub keepalive_probes: u32,
    /// How long sent bytes may stay without an acknowledgement.
    pub user_timeout: Nanos,
    /// Bytes of the receive buffer; absent: the kernel's own sizing.
    pub receive_buffer: Option<u32>,
    /// Bytes of the send buffer; absent: the kernel's own sizing.
    pub send_buffer: Option<u32>,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self {
            keepalive_idle: Nanos::from_millis(60_000),
            keepalive_interval: Nanos::from_millis(30_000),
            keepalive_probes: 1,
            user_timeout: Nanos::from_millis(30_000),
            receive_buffer: None,
            send_buffer: None,
        }
    }
}

impl SocketOptions {
    /// Sets the options, and that bytes are sent without delay.
    pub fn apply(&self, socket: &Socket) -> Result<(), std::io::Error> {
        socket.set_tcp_nodelay(true)?;
        let keepalive = TcpKeepalive::new()
            .with_time(self.keepalive_idle.into())
            .with_interval(self.keepalive_interval.into())
            .with_retries(self.keepalive_probes);
        socket.set_tcp_keepalive(&keepalive)?;
        socket.set_tcp_user_timeout(Some(self.user_timeout.into()))?;
        self.apply_sizes(socket)
    }

    /// Sets the sizes of the buffers alone: all that a unix socket has of these options.
    pub fn apply_sizes(&self, socket: &Socket) -> Result<(), std::io::Error> {
        if let Some(bytes) = self.receive_buffer {
            socket.set_recv_buffer_size(bytes as usize)?;
        }
        if let Some(bytes) = self.send_buffer {
            socket.set_send_buffer_size(bytes as usize)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_socket_has_the_options_that_aiperf_sets() -> Result<(), std::io::Error> {
        let socket = Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
        let untouched = socket.recv_buffer_size()?;
        SocketOptions::default().apply(&socket)?;
        assert!(socket.tcp_nodelay()? && socket.keepalive()?);
        assert_eq!(socket.tcp_keepalive_time()?, Duration::from_mins(1));
        assert_eq!(socket.tcp_keepalive_interval()?, Duration::from_secs(30));
        assert_eq!(socket.tcp_keepalive_retries()?, 1);
        assert_eq!(socket.tcp_user_timeout()?, Some(Duration::from_secs(30)));
        assert_eq!(socket.recv_buffer_size()?, untouched);
        SocketOptions { receive_buffer: Some(32_768), ..SocketOptions::default() }.apply(&socket)?;
        // The kernel doubles what it is asked for.
        assert_eq!(socket.recv_buffer_size()?, 65_536);
        Ok(())
    }
}
