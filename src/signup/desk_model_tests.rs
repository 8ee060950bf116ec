//! The desk against plain lists of keys and passes.

use std::time::Duration;

use arbtest::arbitrary::{Result as Arbitrary, Unstructured};

use super::*;

const FORGED: &str = "7fffffff.0.0123456789abcdef0123456789abcdef.192.0.2.1";
/// Clients, and what each counts as.
const CLIENTS: [(&str, &str); 4] = [
    ("192.0.2.1", "192.0.2.1"),
    ("192.0.2.2", "192.0.2.2"),
    ("2001:db8::1", "2001:db8::/64"),
    ("2001:db8::f:1", "2001:db8::/64"),
];

/// What is known of a pass that was handed out.
#[derive(Clone)]
struct Held {
    text: String,
    /// `None`: of a form, or none at all.
    holder: Option<String>,
    number: usize,
    until: i64,
}

impl Held {
    fn of_nobody(text: String) -> Held {
        Held {
            text,
            holder: None,
            number: 0,
            until: 0,
        }
    }
}

/// The obvious way: lists, searched from end to end.
struct Plain {
    is_ip: bool,
    daily_max: usize,
    keys: Vec<(String, ListedKey)>,
    passes: Vec<Held>,
}

impl Plain {
    /// Mostly a late pass, and from the client that has it, or nothing would come of most wishes.
    fn any_asker(
        &self,
        u: &mut Unstructured<'_>,
    ) -> Arbitrary<(Held, (&'static str, &'static str))> {
        let passes = &self.passes;
        let late = passes.len().saturating_sub(2);
        let from = if u.ratio(3, 4)? { late } else { 0 };
        let held = u.choose(&passes[from..])?.clone();
        let own = |(_, own): &&(&str, &str)| held.holder.as_deref() == Some(own);
        let client = match CLIENTS.iter().find(own) {
            Some(whose) if u.ratio(7, 8)? => *whose,
            _ => *u.choose(&CLIENTS)?,
        };
        Ok((held, client))
    }

    fn of(&self, address: &str) -> Vec<ListedKey> {
        let of = self.keys.iter().filter(|(of, _)| of == address);
        of.map(|(_, key)| key.clone()).collect()
    }

    /// Whose keys the pass opens.
    fn holder(&self, client: &str, held: &Held, now: i64) -> Result<String, Refused> {
        match &held.holder {
            None => Err(Refused::Invalid),
            Some(_) if now >= held.until => Err(Refused::Expired),
            Some(address) if self.is_ip && address != client => Err(Refused::Invalid),
            Some(address) => Ok(address.clone()),
        }
    }

    fn revoke(&mut self, of: String, id: KeyId, now: i64) -> Result<String, Refused> {
        let mut all = self.keys.iter_mut();
        let is_it =
            |whose: &str, key: &ListedKey| whose == of && key.id == id && key.tier == Tier::Free;
        let found = all.find(|(whose, key)| is_it(whose, key));
        let key = &mut found.ok_or(Refused::UnknownKey)?.1;
        key.revoked = key.revoked.or(Some(UnixSeconds(now)));
        Ok(of)
    }

    fn may_issue(&self, address: &str, number: usize, now: i64) -> Result<(), Refused> {
        let own = self.of(address);
        if own.len() != number {
            return Err(Refused::Used);
        }
        let own_free = own.iter().filter(|key| key.tier == Tier::Free);
        if own_free.clone().filter(|key| key.revoked.is_none()).count() >= 3 {
            return Err(Refused::TooManyActive);
        }
        let lately = |at| {
            own_free
                .clone()
                .filter(|key| key.issued.0 > at - 86_400)
                .count()
        };
        if lately(now) >= 9 {
            let retry_after_seconds = (1..86_400).find(|wait| lately(now + i64::from(*wait)) < 9);
            return Err(Refused::TooManyLately {
                retry_after_seconds: retry_after_seconds.unwrap(),
            });
        }
        let is_todays = |key: &ListedKey| key.issued.0 / 86_400 == now / 86_400;
        let is_free = |key: &ListedKey| key.tier == Tier::Free;
        let all = self.keys.iter().map(|(_, key)| key);
        if all.filter(|key| is_free(key) && is_todays(key)).count() >= self.daily_max {
            return Err(Refused::DayFull {
                retry_after_seconds: u32::try_from(86_400 - now % 86_400).unwrap(),
            });
        }
        Ok(())
    }
}

struct Scene {
    desk: Desk,
    /// Another process's, as the command line's.
    store: KeyStore,
    plain: Plain,
    now: i64,
}

impl Scene {
    /// What another process does to the keys.
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
                        ..ListedKey::new(key.id, now)
                    };
                    self.plain.keys.push((of.to_owned(), listed));
                }
            }
            1 if known > 0 => {
                let key = &mut self.plain.keys[u.choose_index(known)?].1;
                self.store.revoke(key.id, now).unwrap();
                key.revoked = key.revoked.or(Some(now));
            }
            _ if known > 0 => {
                let key = &mut self.plain.keys[u.choose_index(known)?].1;
                if self.store.restore(key.id).is_ok() {
                    key.revoked = None;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn ask(&mut self, u: &mut Unstructured<'_>) -> Arbitrary<()> {
        let (held, (client, own)) = self.plain.any_asker(u)?;
        let (plain, now) = (&mut self.plain, self.now);
        let serve = |desk: &mut Desk, wish| {
            seen(desk.serve(client.parse().unwrap(), wish, UnixSeconds(now)))
        };
        let holder = plain.holder(own, &held, now);
        let (mut is_issued, mut revoked) = (false, None);
        let (asked, address) = match u.int_in_range(0..=4)? {
            0 if plain.is_ip => (serve(&mut self.desk, look("")), Ok(own.to_owned())),
            0 => {
                let (asked, text) = serve(&mut self.desk, look(""));
                assert_eq!(asked, Seen::Ask);
                plain.passes.push(Held::of_nobody(text));
                return Ok(());
            }
            1 if plain.is_ip => (serve(&mut self.desk, look(&held.text)), Ok(own.to_owned())),
            1 => (serve(&mut self.desk, look(&held.text)), holder),
            2 | 3 => {
                let may = |of: String| plain.may_issue(&of, held.number, now).map(|()| of);
                let address = holder.and_then(may);
                let asked = serve(&mut self.desk, issue(&held.text));
                if let (Ok(of), (Seen::Keys { keys, .. }, _)) = (&address, &asked) {
                    is_issued = true;
                    let listed = ListedKey::new(keys.last().unwrap().id, UnixSeconds(now));
                    plain.keys.push((of.clone(), listed));
                }
                (asked, address)
            }
            _ => {
                let ids = plain.keys.iter().map(|(_, key)| key.id);
                let mut ids: Vec<KeyId> = ids.collect();
                ids.push(NOBODYS_ID.parse().unwrap());
                let of = held.holder.as_deref().unwrap_or_default();
                let its = plain.of(of);
                let id = match its.last() {
                    Some(key) if u.ratio(3, 4)? => key.id,
                    _ => *u.choose(&ids)?,
                };
                let asked = serve(&mut self.desk, revoke(&held.text, &id.to_string()));
                let address = holder.and_then(|of| plain.revoke(of, id, now));
                revoked = Some(id);
                (asked, address)
            }
        };
        let want = match address {
            Err(refused) => Seen::Refused(refused),
            Ok(address) => {
                let keys = plain.of(&address);
                plain.passes.push(Held {
                    text: asked.1,
                    holder: Some(address.clone()),
                    number: keys.len(),
                    until: if plain.is_ip { now + 3600 } else { held.until },
                });
                Seen::Keys {
                    address,
                    keys,
                    is_issued,
                    revoked,
                }
            }
        };
        assert_eq!(asked.0, want);
        Ok(())
    }
}

#[test]
fn any_sequence_of_wishes_and_changes_elsewhere_agrees_with_plain_lists() {
    let state = state("model");
    arbtest::arbtest(|u| {
        let _ = fs::remove_dir_all(&state);
        let is_ip = u.arbitrary()?;
        let mode = if is_ip { Mode::Ip } else { mailer("true") };
        let daily_max = *u.choose(&[2, 100])?;
        let (desk, said) = open(&state, mode, daily_max);
        let plain = Plain {
            is_ip,
            daily_max: daily_max as usize,
            keys: Vec::new(),
            passes: vec![Held::of_nobody(FORGED.to_owned())],
        };
        let store = KeyStore::new(&state);
        let now = NOON;
        let mut scene = Scene {
            desk,
            store,
            plain,
            now,
        };
        for _ in 0..u.int_in_range(0..=60)? {
            // Never faster than anybody may ask.
            scene.now += *u.choose(&[2, 2, 2, 2, 2, 2, 2, 600, 3598, 40_000])?;
            if u.ratio(1, 6)? {
                scene.change_elsewhere(u)?;
            } else if !is_ip && u.ratio(1, 5)? {
                // A link that has come by mail.
                let address = *u.choose(&["ann@x.test", "bob@x.test"])?;
                let number = scene.plain.of(address).len();
                let until = scene.now + 3600;
                let pass = Pass {
                    address: address.parse().unwrap(),
                    number: u32::try_from(number).unwrap(),
                    until: UnixSeconds(until),
                };
                let text = scene.desk.signer.sign(Purpose::Holder, &pass);
                let holder = Some(address.to_owned());
                scene.plain.passes.push(Held {
                    text,
                    holder,
                    number,
                    until,
                });
            } else {
                scene.ask(u)?;
            }
        }
        assert_eq!(said.try_iter().count(), 0);
        Ok(())
    })
    .budget(Duration::from_secs(1));
    let _ = fs::remove_dir_all(&state);
}
