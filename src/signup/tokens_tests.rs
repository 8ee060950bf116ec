use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use arbtest::arbitrary::{Result as Arbitrary, Unstructured};

use super::*;

const SECRET: SignupSecret = SignupSecret([1; SignupSecret::BYTES]);

fn any_token(u: &mut Unstructured<'_>) -> Arbitrary<SignedToken> {
    let address = match u.int_in_range(0..=3)? {
        0 => KeyAddress::from(std::net::IpAddr::from(u.arbitrary::<[u8; 4]>()?)),
        1 => KeyAddress::from(std::net::IpAddr::from(u.arbitrary::<[u8; 16]>()?)),
        2 => "a.%41+b=c@x-y.example".parse().unwrap(),
        _ => "~'&._-@x.test".parse().unwrap(),
    };
    Ok(SignedToken {
        address,
        number: u.arbitrary()?,
        expires: UnixSeconds(u.int_in_range(1..=1 << 40)?),
    })
}

fn any_purpose(u: &mut Unstructured<'_>) -> Arbitrary<(TokenPurpose, TokenPurpose)> {
    let both = (TokenPurpose::Form, TokenPurpose::AddressHolder);
    Ok(if u.arbitrary()? {
        both
    } else {
        (both.1, both.0)
    })
}

#[test]
fn mailed_links_of_other_versions_stay_valid() {
    // HMAC-SHA-256, computed by another program.
    let found = mac(TokenPurpose::Form, &SECRET, ["99", "5", "ann@x.test"]);
    assert_eq!(found, "11fe8d4ba60e2975574d8ae98d1928fe");
}

#[test]
fn any_token_is_valid_until_it_expires_and_for_its_purpose_only() {
    arbtest::arbtest(|u| {
        let secret = SignupSecret(u.arbitrary()?);
        let token = any_token(u)?;
        let (purpose, other) = any_purpose(u)?;
        let text = token.sign(purpose, &secret);
        let before = |seconds| UnixSeconds(token.expires.0 - seconds);
        let verify = |purpose, now| SignedToken::verify(&text, purpose, &secret, now);
        assert_eq!(verify(purpose, before(1)), Ok(token.clone()));
        assert_eq!(verify(purpose, before(LIFETIME_SECONDS)), Ok(token.clone()));
        assert_eq!(verify(purpose, before(0)), Err(SignupError::ExpiredToken));
        assert_eq!(verify(purpose, before(-1)), Err(SignupError::ExpiredToken));
        let early = before(3 * LIFETIME_SECONDS);
        assert_eq!(verify(purpose, early), Err(SignupError::ExpiredToken));
        assert_eq!(verify(other, before(1)), Err(SignupError::InvalidToken));
        let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        assert!(text.bytes().all(safe), "{text}");
        Ok(())
    });
}

#[test]
fn any_change_of_the_text_or_the_secret_is_rejected() {
    arbtest::arbtest(|u| {
        let secret = SignupSecret(u.arbitrary()?);
        let token = any_token(u)?;
        let now = UnixSeconds(token.expires.0 - 1);
        let text = token.sign(TokenPurpose::AddressHolder, &secret);
        let rejected = |secret: &SignupSecret, text: &str| {
            let verified = SignedToken::verify(text, TokenPurpose::AddressHolder, secret, now);
            assert_eq!(verified, Err(SignupError::InvalidToken), "{text}");
        };
        let at = u.choose_index(text.len())?;
        let other = char::from(u.int_in_range(0..=127_u8)?);
        let (head, tail) = text.split_at(at);
        if !tail.starts_with(other) {
            rejected(&secret, &format!("{head}{other}{}", &tail[1..]));
        }
        rejected(&secret, &format!("{head}{}", &tail[1..]));
        rejected(&secret, head);
        rejected(&secret, tail.get(1..).unwrap());
        rejected(&secret, &format!("{text}{other}"));
        rejected(&secret, &format!("{other}{text}"));
        let mut changed = secret;
        changed.0[u.choose_index(SignupSecret::BYTES)?] ^= 1 << u.int_in_range(0..=7)?;
        rejected(&changed, &text);
        Ok(())
    });
}

#[test]
fn any_text_is_rejected_without_a_panic() {
    let rejected = |text: &str| {
        let verified =
            SignedToken::verify(text, TokenPurpose::AddressHolder, &SECRET, UnixSeconds(0));
        assert_eq!(verified, Err(SignupError::InvalidToken), "{text:?}");
    };
    arbtest::arbtest(|u| {
        rejected(u.arbitrary()?);
        Ok(())
    });
    for text in ["", "...", "1.0.0.a", "é.é.é.é"] {
        rejected(text);
    }
    rejected(&".".repeat(100_000));
}

#[test]
fn bytes_cannot_move_between_fields() {
    let one = mac(TokenPurpose::AddressHolder, &SECRET, ["12", "3", "a"]);
    assert_ne!(
        one,
        mac(TokenPurpose::AddressHolder, &SECRET, ["1", "23", "a"])
    );
    assert_ne!(
        one,
        mac(TokenPurpose::AddressHolder, &SECRET, ["12", "3a", ""])
    );
    assert_ne!(one, mac(TokenPurpose::Form, &SECRET, ["12", "3", "a"]));
}

#[test]
fn the_longest_token_fits_a_line_of_mail() {
    let address = format!("{}@{}.test", "+".repeat(64), "a".repeat(184));
    let token = SignedToken {
        address: address.parse().unwrap(),
        number: u32::MAX,
        expires: UnixSeconds(i64::MAX),
    };
    let text = token.sign(TokenPurpose::AddressHolder, &SECRET);
    assert!(text.len() <= 500, "{}", text.len());
}

#[test]
fn concurrent_starts_share_one_secret_and_keep_it() {
    let directory = std::env::temp_dir().join(format!("im-secret-{}", std::process::id()));
    let state = directory.join("state");
    let secrets = std::thread::scope(|scope| {
        let all: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| read_or_create_secret(&state).unwrap()))
            .collect();
        let secrets = all.into_iter().map(|one| one.join().unwrap());
        secrets.collect::<Vec<_>>()
    });
    assert!(secrets.iter().all(|secret| *secret == secrets[0]));
    assert_ne!(secrets[0].0, [0; SignupSecret::BYTES]);
    assert_eq!(read_or_create_secret(&state).unwrap(), secrets[0]);
    let mode = fs::metadata(state.join(SignupSecret::FILE))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_file_that_others_may_read_is_refused() {
    let directory = std::env::temp_dir().join(format!("im-open-secret-{}", std::process::id()));
    read_or_create_secret(&directory).unwrap();
    for (mode, is_good) in [
        (0o640, false),
        (0o604, false),
        (0o620, false),
        (0o400, true),
    ] {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(directory.join(SignupSecret::FILE), permissions).unwrap();
        let read = read_or_create_secret(&directory);
        assert_eq!(read.is_ok(), is_good, "{mode:o}");
        if let Err(error) = read {
            let found = format!("signup.secret: the file's mode must be 600, got {mode:o}");
            assert!(error.to_string().contains(&found), "{error}");
        }
    }
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_file_of_another_length_is_refused_by_name() {
    let directory = std::env::temp_dir().join(format!("im-no-secret-{}", std::process::id()));
    durable::create_private_directory(&directory).unwrap();
    for length in [0, 31, 33, 64] {
        durable::replace_private(&directory.join(SignupSecret::FILE), &vec![7; length]).unwrap();
        let text = read_or_create_secret(&directory).unwrap_err().to_string();
        let found = format!("signup.secret: the file must have 32 bytes, got {length}");
        assert!(text.contains(&found), "{text}");
    }
    fs::remove_file(directory.join(SignupSecret::FILE)).unwrap();
    fs::create_dir(directory.join(SignupSecret::FILE)).unwrap();
    let text = read_or_create_secret(&directory).unwrap_err().to_string();
    assert!(
        text.contains("signup.secret: is not a regular file"),
        "{text}"
    );
    fs::remove_dir_all(directory).unwrap();
}
