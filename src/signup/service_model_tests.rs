//! The service against plain lists of keys and tokens.

use std::time::Duration;

use arbtest::arbitrary::{Result as Arbitrary, Unstructured};

use super::*;

const FORGED: &str = "7fffffff.0.0123456789abcdef0123456789abcdef.192.0.2.1";
const CLIENTS: [(&str, &str); 4] = [
    ("192.0.2.1", "192.0.2.1"),
    ("192.0.2.2", "192.0.2.2"),
    ("2001:db8::1", "2001:db8::/64"),
    ("2001:db8::f:1", "2001:db8::/64"),
];

#[derive(Clone)]
struct KnownToken {
    text: String,
    /// `None`: of a form, or none at all.
    holder: Option<String>,
    number: usize,
    until: i64,
}

impl KnownToken {
    fn without_holder(text: String) -> KnownToken {
        KnownToken {
            text,
            holder: None,
            number: 0,
            until: 0,
        }
    }
}

/// The oracle: lists, searched from end to end.
struct Plain {
    is_ip: bool,
    daily_max: usize,
    keys: Vec<(String, ListedKey)>,
    tokens: Vec<KnownToken>,
}

impl Plain {
    /// Mostly a late token, and from the client that has it, or nothing would come of most requests.
    fn any_client(
        &self,
        u: &mut Unstructured<'_>,
    ) -> Arbitrary<(KnownToken, (&'static str, &'static str))> {
        let tokens = &self.tokens;
        let late = tokens.len().saturating_sub(2);
        let from = if u.ratio(3, 4)? { late } else { 0 };
        let known = u.choose(&tokens[from..])?.clone();
        let own = |(_, own): &&(&str, &str)| known.holder.as_deref() == Some(own);
        let client = match CLIENTS.iter().find(own) {
            Some(whose) if u.ratio(7, 8)? => *whose,
            _ => *u.choose(&CLIENTS)?,
        };
        Ok((known, client))
    }

    fn of(&self, address: &str) -> Vec<ListedKey> {
        let of = self.keys.iter().filter(|(of, _)| of == address);
        of.map(|(_, key)| key.clone()).collect()
    }

    /// Address whose keys the token opens.
    fn holder(&self, client: &str, known: &KnownToken, now: i64) -> Result<String, SignupError> {
        match &known.holder {
            None => Err(SignupError::InvalidToken),
            Some(_) if now >= known.until => Err(SignupError::ExpiredToken),
            Some(address) if self.is_ip && address != client => Err(SignupError::InvalidToken),
            Some(address) => Ok(address.clone()),
        }
    }

    fn revoke(&mut self, of: String, id: KeyId, now: i64) -> Result<String, SignupError> {
        let mut all = self.keys.iter_mut();
        let is_it =
            |whose: &str, key: &ListedKey| whose == of && key.id == id && key.tier == Tier::Free;
        let found = all.find(|(whose, key)| is_it(whose, key));
        let key = &mut found.ok_or(SignupError::UnknownKey)?.1;
        key.revoked = key.revoked.or(Some(UnixSeconds(now)));
        Ok(of)
    }

    fn check_issue(&self, address: &str, number: usize, now: i64) -> Result<(), SignupError> {
        let own = self.of(address);
        if own.len() != number {
            return Err(SignupError::UsedToken);
        }
        let own_free = own.iter().filter(|key| key.tier == Tier::Free);
        if own_free.clone().filter(|key| key.revoked.is_none()).count() >= 3 {
            return Err(SignupError::TooManyActive);
        }
        let recent = |at| {
            own_free
                .clone()
                .filter(|key| key.issued.0 > at - 86_400)
                .count()
        };
        if recent(now) >= 9 {
            let retry_after_seconds = (1..86_400).find(|wait| recent(now + i64::from(*wait)) < 9);
            return Err(SignupError::TooManyRecent(retry_after_seconds.unwrap()));
        }
        let is_todays = |key: &ListedKey| key.issued.0 / 86_400 == now / 86_400;
        let is_free = |key: &ListedKey| key.tier == Tier::Free;
        let all = self.keys.iter().map(|(_, key)| key);
        if all.filter(|key| is_free(key) && is_todays(key)).count() >= self.daily_max {
            return Err(SignupError::DailyLimit(
                u32::try_from(86_400 - now % 86_400).unwrap(),
            ));
        }
        Ok(())
    }
}

struct Scene {
    service: SignupService,
    /// Another process's, as the command line's.
    store: KeyStore,
    plain: Plain,
    now: i64,
}

impl Scene {
    /// Changes of the keys by another process.
    fn change_elsewhere(&mut self, u: &mut Unstructured<'_>) -> Arbitrary<()> {
        let now = UnixSeconds(self.now);
        let known = self.plain.keys.len();
        match u.int_in_range(0..=2)? {
            0 => {
                let of = *u.choose(&["192.0.2.1", "2001:db8::/64", "ann@x.test"])?;
                let tier = *u.choose(&Tier::ALL)?;
                let issued =
                    self.store
                        .issue(&KeyPrefix::default(), &of.parse().unwrap(), tier, now);
                if let Ok(key) = issued {
                    let listed = ListedKey {
                        tier,
                        ..ListedKey::free(key.id, now)
                    };
                    self.plain.keys.push((of.to_owned(), listed));
                }
            }
            1 if known > 0 => {
                let key = &mut self.plain.keys[u.choose_index(known)?].1;
                self.store.set_revoked(key.id, true, now).unwrap();
                key.revoked = key.revoked.or(Some(now));
            }
            _ if known > 0 => {
                let key = &mut self.plain.keys[u.choose_index(known)?].1;
                if self.store.set_revoked(key.id, false, now).is_ok() {
                    key.revoked = None;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The key file is removed or an older one takes its place, and perhaps another process changes it before
    /// the service reads it.
    fn lose(&mut self, older: &mut Vec<u8>, u: &mut Unstructured<'_>) -> Arbitrary<()> {
        self.service.store.current().unwrap();
        let path = self.store.path();
        let newest = fs::read(&path).unwrap_or_default();
        if older.is_empty() {
            durable::remove(&path).unwrap();
        } else {
            durable::replace_private(&path, older).unwrap();
        }
        *older = if u.arbitrary()? { newest } else { Vec::new() };
        if u.arbitrary()? {
            let (of, now) = ("ann@x.test", UnixSeconds(self.now));
            let prefix = KeyPrefix::default();
            let issued = self
                .store
                .issue(&prefix, &of.parse().unwrap(), Tier::Pro, now);
            let listed = ListedKey {
                tier: Tier::Pro,
                ..ListedKey::free(issued.unwrap().id, now)
            };
            self.plain.keys.push((of.to_owned(), listed));
        }
        if !self.plain.keys.is_empty() && u.arbitrary()? {
            let key = u.choose_index(self.plain.keys.len())?;
            let key = &mut self.plain.keys[key].1;
            let (is_revoked, now) = (u.arbitrary()?, UnixSeconds(self.now));
            // The file may lack the key, have it in this state, or have too many keys of the address.
            let changed = self.store.set_revoked(key.id, is_revoked, now);
            if changed.is_ok() {
                // The latest change counts, also one to the state that the file has; of two in one second, the revocation.
                let all = [
                    self.service.store.known(),
                    self.store.read().unwrap().into(),
                ];
                let states = all.iter().flat_map(|records| records.as_slice());
                let states = states.filter(|found| found.id == key.id);
                let newest = states.max_by_key(|found| found.state());
                key.revoked = newest.unwrap().revoked;
            }
        }
        let number = self.service.store.current().unwrap().as_slice().len();
        assert_eq!(number, self.plain.keys.len());
        self.service.store.repair().unwrap();
        Ok(())
    }

    fn request(&mut self, u: &mut Unstructured<'_>) -> Arbitrary<()> {
        let (known, (client, own)) = self.plain.any_client(u)?;
        let (plain, now) = (&mut self.plain, self.now);
        let handle = |service: &mut SignupService, request| {
            seen(service.handle(client.parse().unwrap(), request, UnixSeconds(now)))
        };
        let holder = plain.holder(own, &known, now);
        let (mut is_issued, mut revoked) = (false, None);
        let (got, address) = match u.int_in_range(0..=4)? {
            0 if plain.is_ip => (handle(&mut self.service, show("")), Ok(own.to_owned())),
            0 => {
                let (got, text) = handle(&mut self.service, show(""));
                assert_eq!(got, Seen::EmailForm);
                plain.tokens.push(KnownToken::without_holder(text));
                return Ok(());
            }
            1 if plain.is_ip => (
                handle(&mut self.service, show(&known.text)),
                Ok(own.to_owned()),
            ),
            1 => (handle(&mut self.service, show(&known.text)), holder),
            2 | 3 => {
                let may = |of: String| plain.check_issue(&of, known.number, now).map(|()| of);
                let address = holder.and_then(may);
                let got = handle(&mut self.service, issue(&known.text));
                if let (Ok(of), (Seen::Keys { keys, .. }, _)) = (&address, &got) {
                    is_issued = true;
                    let listed = ListedKey::free(keys.last().unwrap().id, UnixSeconds(now));
                    plain.keys.push((of.clone(), listed));
                }
                (got, address)
            }
            _ => {
                let ids = plain.keys.iter().map(|(_, key)| key.id);
                let mut ids: Vec<KeyId> = ids.collect();
                ids.push(NOBODYS_ID.parse().unwrap());
                let of = known.holder.as_deref().unwrap_or_default();
                let its = plain.of(of);
                let id = match its.last() {
                    Some(key) if u.ratio(3, 4)? => key.id,
                    _ => *u.choose(&ids)?,
                };
                let got = handle(&mut self.service, revoke(&known.text, &id.to_string()));
                let address = holder.and_then(|of| plain.revoke(of, id, now));
                revoked = Some(id);
                (got, address)
            }
        };
        let want = match address {
            Err(refused) => Seen::Rejected(refused),
            Ok(address) => {
                let keys = plain.of(&address);
                plain.tokens.push(KnownToken {
                    text: got.1,
                    holder: Some(address.clone()),
                    number: keys.len(),
                    until: if plain.is_ip { now + 3600 } else { known.until },
                });
                Seen::Keys {
                    address,
                    keys,
                    is_issued,
                    revoked,
                }
            }
        };
        assert_eq!(got.0, want);
        Ok(())
    }
}

#[test]
fn any_sequence_of_requests_and_outside_changes_agrees_with_plain_lists() {
    let state = state("model");
    arbtest::arbtest(|u| {
        let _ = fs::remove_dir_all(&state);
        let is_ip: bool = u.arbitrary()?;
        let mailer = (!is_ip).then_some("true");
        let daily_max = *u.choose(&[2, 100])?;
        let (service, log) = open(&state, mailer, daily_max);
        let plain = Plain {
            is_ip,
            daily_max: daily_max as usize,
            keys: Vec::new(),
            tokens: vec![KnownToken::without_holder(FORGED.to_owned())],
        };
        let now = NOON;
        let mut older = Vec::new();
        let mut scene = Scene {
            service,
            store: KeyStore::new(&state),
            plain,
            now,
        };
        for _ in 0..u.int_in_range(0..=60)? {
            scene.now += *u.choose(&[2, 2, 2, 2, 2, 2, 2, 600, 3598, 40_000])?;
            // Another process knows no more than the file.
            scene.store = KeyStore::new(&state);
            if u.ratio(1, 12)? {
                scene.lose(&mut older, u)?;
            } else if u.ratio(1, 6)? {
                scene.change_elsewhere(u)?;
            } else if !is_ip && u.ratio(1, 5)? {
                // A link that has come by mail.
                let address = *u.choose(&["ann@x.test", "bob@x.test"])?;
                let number = scene.plain.of(address).len();
                let until = scene.now + 3600;
                let token = SignedToken {
                    address: address.parse().unwrap(),
                    number: u32::try_from(number).unwrap(),
                    expires: UnixSeconds(until),
                };
                let text = token.sign(TokenPurpose::AddressHolder, &scene.service.secret);
                let holder = Some(address.to_owned());
                scene.plain.tokens.push(KnownToken {
                    text,
                    holder,
                    number,
                    until,
                });
            } else {
                scene.request(u)?;
            }
        }
        assert_eq!(log.read(), [""; 0]);
        Ok(())
    })
    .budget(Duration::from_secs(1));
    let _ = fs::remove_dir_all(&state);
}
