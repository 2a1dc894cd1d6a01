//! An address that answers nobody.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use socket2::{Domain, Socket, Type};
use std::net::SocketAddr;

/// A listener whose queue is full: the kernel answers no further connection.
pub(crate) fn black_hole() -> (Socket, SocketAddr, Vec<Socket>) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let fill = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        let _ = socket.connect(&address.into());
        socket
    };
    let fillers = (0..8).map(|_| fill()).collect();
    (listener, address, fillers)
}
