//! The client's end of TLS against rustls's own server, in memory: any split of the bytes, every fault.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/certificates.rs"]
mod certificates;

use certificates::{Authority, Clients, EXPIRED, GOOD, NOT_YET, Signed, server};
use phasor::wire::tls::{
    Handshake, Identity, IdentityFault, PemFault, Roots, TlsClient, TlsFault, TlsSession, TlsTarget,
    Verification,
};
use proptest::prelude::*;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, ServerConnection};
use std::io::{Read, Write};
use std::sync::Arc;

const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

fn client_of(roots: &[&Authority], verification: Verification, identity: Option<&Signed>) -> TlsClient {
    let mut trusted = Roots::default();
    for root in roots {
        assert_eq!(trusted.add_pem(root.pem.as_bytes()), Ok(1));
    }
    let identity = identity.map(|own| Identity::from_pem(own.chain.as_bytes(), own.key.as_bytes()).unwrap());
    TlsClient::new(trusted, verification, identity).unwrap()
}

fn trusting(authority: &Authority) -> TlsClient {
    client_of(&[authority], Verification::On, None)
}

/// Both ends of a connection. Bytes between them are cut by `cut`, which gives the length of the next piece.
struct Pair<'c> {
    client: TlsSession,
    server: ServerConnection,
    received: Vec<u8>,
    heard: Vec<u8>,
    cut: &'c mut dyn FnMut(usize) -> usize,
}

impl<'c> Pair<'c> {
    fn new(target: &TlsTarget, config: &Arc<ServerConfig>, cut: &'c mut dyn FnMut(usize) -> usize) -> Self {
        let server = ServerConnection::new(Arc::clone(config)).unwrap();
        Self { client: target.begin().unwrap(), server, received: Vec::new(), heard: Vec::new(), cut }
    }

    /// Hands bytes over until neither end has more to say.
    fn settle(&mut self) -> Result<(), TlsFault> {
        loop {
            let mut said = Vec::new();
            self.client.take_records(&mut said);
            let mut rest = said.as_slice();
            while !rest.is_empty() {
                let mut piece = &rest[..(self.cut)(rest.len())];
                rest = &rest[piece.len()..];
                while !piece.is_empty() {
                    self.server.read_tls(&mut piece).unwrap();
                    // What the server minds, it tells by an alert.
                    let _ = self.server.process_new_packets();
                    self.hear();
                }
            }
            let mut answer = Vec::new();
            while self.server.wants_write() {
                self.server.write_tls(&mut answer).unwrap();
            }
            let mut rest = answer.as_slice();
            while !rest.is_empty() {
                let (piece, after) = rest.split_at((self.cut)(rest.len()));
                self.client.receive(piece, &mut self.received)?;
                rest = after;
            }
            if said.is_empty() && answer.is_empty() {
                return Ok(());
            }
        }
    }

    fn server_says(&mut self, bytes: &[u8]) {
        self.server.set_buffer_limit(None);
        self.server.writer().write_all(bytes).unwrap();
    }

    fn hear(&mut self) {
        let mut piece = [0; 4_096];
        while let Ok(count) = self.server.reader().read(&mut piece) {
            if count == 0 {
                break;
            }
            self.heard.extend_from_slice(&piece[..count]);
        }
    }
}

fn whole(length: usize) -> usize {
    length
}

/// What comes of shaking hands with `signed` as `host`.
fn shake(client: &TlsClient, host: &str, signed: &Signed) -> Result<(), TlsFault> {
    let config = Arc::new(server(signed, &Clients::Anybody, &[&TLS12, &TLS13]));
    let mut cut = whole;
    let mut pair = Pair::new(&client.to(host).unwrap(), &config, &mut cut);
    pair.settle()?;
    assert!(pair.client.is_established());
    assert_eq!(pair.client.handshake(), Some(Handshake::Full));
    assert_eq!(pair.server.alpn_protocol(), Some(b"http/1.1".as_slice()));
    Ok(())
}

fn bytes(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|index| (index.wrapping_mul(31) ^ seed).to_le_bytes()[0]).collect()
}

#[test]
fn a_name_and_bare_addresses_are_verified() {
    let authority = Authority::new("authority");
    let signed = authority.sign(&NAMES, GOOD);
    for host in NAMES {
        assert_eq!(shake(&trusting(&authority), host, &signed), Ok(()), "{host}");
    }
    for host in ["elsewhere", "127.0.0.2", "::2"] {
        let fault = shake(&trusting(&authority), host, &signed).unwrap_err();
        let TlsFault::WrongName { detail } = &fault else { panic!("{fault}") };
        assert!(detail.contains(host) && detail.contains("localhost"), "{detail}");
    }
    assert!(trusting(&authority).to("no host").is_none());
}

#[test]
fn a_certificate_that_is_not_good_is_named_and_taken_when_nothing_is_verified() {
    let (authority, other) = (Authority::new("authority"), Authority::new("other"));
    let expired = authority.sign(&NAMES, EXPIRED);
    let not_yet = authority.sign(&NAMES, NOT_YET);
    let foreign = other.sign(&NAMES, GOOD);
    let client = trusting(&authority);
    let fault = |signed| shake(&client, "localhost", signed).unwrap_err();
    assert!(matches!(fault(&expired), TlsFault::Expired { .. }), "{}", fault(&expired));
    assert!(matches!(fault(&not_yet), TlsFault::NotYetValid { .. }), "{}", fault(&not_yet));
    assert_eq!(fault(&foreign), TlsFault::UnknownIssuer);
    assert!(fault(&foreign).to_string().contains("--ca-file"));
    let credulous = client_of(&[], Verification::Off, None);
    for signed in [&expired, &not_yet, &foreign] {
        assert_eq!(shake(&credulous, "elsewhere", signed), Ok(()));
    }
    let both = client_of(&[&authority, &other], Verification::On, None);
    assert_eq!(shake(&both, "localhost", &foreign), Ok(()), "a second authority is trusted, too");
}

#[test]
fn a_farewell_and_a_cut_are_told_apart() {
    let authority = Authority::new("authority");
    let config = Arc::new(server(&authority.sign(&NAMES, GOOD), &Clients::Anybody, &[&TLS13, &TLS12]));
    let target = trusting(&authority).to("localhost").unwrap();
    let mut cut = whole;
    let mut pair = Pair::new(&target, &config, &mut cut);
    pair.settle().unwrap();
    pair.server_says(b"last words");
    pair.settle().unwrap();
    assert!(!pair.client.is_peer_closed(), "a stream that ended here would be cut");
    pair.server_says(b"!");
    pair.server.send_close_notify();
    pair.settle().unwrap();
    assert!(pair.client.is_peer_closed());
    assert_eq!(pair.received, b"last words!");
    pair.client.close();
    pair.settle().unwrap();
    assert!(pair.server.process_new_packets().unwrap().peer_has_closed(), "the client says farewell, too");
}

#[test]
fn what_is_not_tls_is_known_by_its_first_byte() {
    let target = trusting(&Authority::new("authority")).to("localhost").unwrap();
    let answer = |bytes: &[u8]| target.begin().unwrap().receive(bytes, &mut Vec::new()).unwrap_err();
    assert_eq!(answer(b"H"), TlsFault::NotTls { http: true });
    assert!(answer(b"HTTP/1.1 400 Bad Request\r\n").to_string().contains("`http://`"));
    assert_eq!(answer(b"\0\0"), TlsFault::NotTls { http: false });
    // Of the right type, and nonsense.
    let broken = answer(&[22, 3, 3, 0, 4, 9, 9, 9, 9]);
    assert!(matches!(broken, TlsFault::Broken { .. }), "{broken}");
}

#[test]
fn a_record_that_was_changed_on_the_way_breaks_the_connection_after_what_came_before() {
    let authority = Authority::new("authority");
    let config = Arc::new(server(&authority.sign(&NAMES, GOOD), &Clients::Anybody, &[&TLS13]));
    let mut cut = whole;
    let mut pair = Pair::new(&trusting(&authority).to("localhost").unwrap(), &config, &mut cut);
    pair.settle().unwrap();
    let mut stream = Vec::new();
    for text in [b"good", b"evil"] {
        pair.server_says(text);
        pair.server.write_tls(&mut stream).unwrap();
    }
    *stream.last_mut().unwrap() ^= 1;
    let mut plain = Vec::new();
    let fault = pair.client.receive(&stream, &mut plain).unwrap_err();
    assert!(matches!(fault, TlsFault::Broken { .. }), "{fault}");
    assert_eq!(plain, b"good");
    assert!(pair.client.has_records(), "the server is told why");
}

#[test]
fn a_server_that_asks_who_the_client_is_gets_its_certificate() {
    let (authority, clients) = (Authority::new("authority"), Authority::new("clients"));
    let signed = authority.sign(&NAMES, GOOD);
    let own = clients.sign(&["client"], GOOD);
    let stranger = authority.sign(&["client"], GOOD);
    for version in [&TLS12, &TLS13] {
        let config = Arc::new(server(&signed, &Clients::SignedBy(&clients), &[version]));
        let shake = |identity: Option<&Signed>| {
            let client = client_of(&[&authority], Verification::On, identity);
            let mut cut = whole;
            Pair::new(&client.to("localhost").unwrap(), &config, &mut cut).settle()
        };
        assert_eq!(shake(Some(&own)), Ok(()));
        for identity in [None, Some(&stranger)] {
            let fault = shake(identity).unwrap_err();
            assert!(matches!(fault, TlsFault::Alert { .. }), "{fault}");
        }
    }
    let config = Arc::new(server(&signed, &Clients::SignedBy(&clients), &[&TLS13]));
    let mut cut = whole;
    let fault =
        Pair::new(&trusting(&authority).to("localhost").unwrap(), &config, &mut cut).settle().unwrap_err();
    assert!(fault.to_string().contains("--client-cert"), "{fault}");
}

#[test]
fn a_server_without_http_1_1_is_refused() {
    let authority = Authority::new("authority");
    let mut config = server(&authority.sign(&NAMES, GOOD), &Clients::Anybody, &[&TLS13]);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let mut cut = whole;
    let mut pair = Pair::new(&trusting(&authority).to("localhost").unwrap(), &Arc::new(config), &mut cut);
    let fault = pair.settle().unwrap_err();
    assert!(fault.to_string().contains("NoApplicationProtocol"), "{fault}");
}

#[test]
fn a_second_connection_takes_the_session_up_again_and_another_target_does_not() {
    let authority = Authority::new("authority");
    let signed = authority.sign(&NAMES, GOOD);
    for version in [&TLS12, &TLS13] {
        let config = Arc::new(server(&signed, &Clients::Anybody, &[version]));
        let client = trusting(&authority);
        let target = client.to("localhost").unwrap();
        let shake = |target: &TlsTarget| {
            let mut cut = whole;
            let mut pair = Pair::new(target, &config, &mut cut);
            pair.settle().unwrap();
            pair.client.handshake().unwrap()
        };
        assert_eq!(shake(&target), Handshake::Full);
        assert_eq!(shake(&target), Handshake::Resumed);
        assert_eq!(shake(&client.to("localhost").unwrap()), Handshake::Full);
    }
}

#[test]
fn texts_that_hold_no_certificate_or_no_key_are_refused_with_their_reason() {
    let authority = Authority::new("authority");
    let (one, two) = (authority.sign(&["one"], GOOD), authority.sign(&["two"], GOOD));
    assert_eq!(Roots::default().add_pem(b""), Err(PemFault::NoCertificate));
    assert_eq!(Roots::default().add_pem(one.key.as_bytes()), Err(PemFault::NoCertificate));
    let torn = authority.pem.replace("-----END CERTIFICATE-----", "");
    assert!(matches!(Roots::default().add_pem(torn.as_bytes()), Err(PemFault::Malformed(_))));
    let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let twice = format!("{}{nonsense}", authority.pem);
    assert!(matches!(Roots::default().add_pem(twice.as_bytes()), Err(PemFault::Unusable { number: 2, .. })));

    let refused = |chain: &str, key: &str| Identity::from_pem(chain.as_bytes(), key.as_bytes()).unwrap_err();
    assert_eq!(refused("", &one.key), IdentityFault::Certificate(PemFault::NoCertificate));
    assert_eq!(refused(&one.chain, &one.chain), IdentityFault::Key(PemFault::NoKey));
    let encrypted = one.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    assert_eq!(refused(&one.chain, &encrypted), IdentityFault::Key(PemFault::Encrypted));
    let crossed = Identity::from_pem(one.chain.as_bytes(), two.key.as_bytes()).unwrap();
    let fault = TlsClient::new(Roots::default(), Verification::On, Some(crossed)).unwrap_err();
    assert_eq!(fault, IdentityFault::Mismatch);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_split_of_the_records_gives_the_same_bytes(
        sizes in prop::collection::vec(0_usize..40_000, 1..8),
        request in 0_usize..50_000,
        cuts in prop::collection::vec(1_usize..3_000, 1..40),
        old in any::<bool>(),
    ) {
        let authority = Authority::new("authority");
        let version = if old { &TLS12 } else { &TLS13 };
        let config = Arc::new(server(&authority.sign(&NAMES, GOOD), &Clients::Anybody, &[version]));
        let mut turn = 0;
        let mut cut = |length: usize| {
            turn += 1;
            cuts[turn % cuts.len()].min(length)
        };
        let mut pair = Pair::new(&trusting(&authority).to("::1").unwrap(), &config, &mut cut);
        pair.client.seal(&bytes(request, 7));
        pair.settle().unwrap();
        prop_assert_eq!(&pair.heard, &bytes(request, 7), "what was sealed early goes out, too");
        let mut expected = Vec::new();
        for (seed, size) in sizes.iter().enumerate() {
            expected.extend_from_slice(&bytes(*size, seed));
            pair.server_says(&bytes(*size, seed));
            pair.settle().unwrap();
        }
        prop_assert_eq!(&pair.received, &expected);
        pair.server.send_close_notify();
        pair.settle().unwrap();
        prop_assert!(pair.client.is_peer_closed());
    }
}
