//! The version of the content of payload files, and the order of the bodies in a history payload: read by its writer,
//! by its opening and by the lookup.

use crate::request::Endpoint;

/// The checksum of the content of the payload files of the sample, and of its list pages, as this program renders them.
pub(crate) const SAMPLE_CHECKSUM: u32 = 4_259_603_945;
/// To be raised by one for a change of rendering that the sample does not show.
const REVISION: u32 = 0;
/// The version of the content of payload files. A server refuses files of another version, and a publish renders
/// everything again if the previous one was of another version.
pub(crate) const CONTENT_VERSION: u32 = SAMPLE_CHECKSUM.wrapping_add(REVISION);

/// The things that a body exists once for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Per {
    Island,
    Creator,
    Day,
    File,
}

/// One row after the other. The bodies of a row are grouped by island, creator or day; each group has the
/// bodies of all endpoints of the row.
pub(crate) const LAYOUT: &[(&[Endpoint], Per)] = &[
    (&[Endpoint::Island, Endpoint::IslandCcu], Per::Island),
    (&[Endpoint::Creator], Per::Creator),
    (&[Endpoint::Ranking], Per::Day),
    (&[Endpoint::New], Per::Day),
    (&[Endpoint::RankingDays, Endpoint::NewDays], Per::File),
];

/// The numbers on which the places of bodies depend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyCounts {
    pub(crate) islands: usize,
    pub(crate) creators: usize,
    pub(crate) days: usize,
}

impl BodyCounts {
    pub(crate) fn of(self, per: Per) -> usize {
        match per {
            Per::Island => self.islands,
            Per::Creator => self.creators,
            Per::Day => self.days,
            Per::File => 1,
        }
    }

    pub(crate) fn total(self) -> usize {
        let of_row = |(endpoints, per): &(&[Endpoint], Per)| endpoints.len() * self.of(*per);
        LAYOUT.iter().map(of_row).sum()
    }

    /// Returns what the bodies of an endpoint exist once for, the place of the first one among all bodies, and the
    /// distance to the next one. `None` if the history payload has no bodies of the endpoint.
    pub(crate) fn find(self, endpoint: Endpoint) -> Option<(Per, usize, usize)> {
        let mut first = 0;
        for (endpoints, per) in LAYOUT {
            if let Some(at) = endpoints.iter().position(|other| *other == endpoint) {
                return Some((*per, first + at, endpoints.len()));
            }
            first += endpoints.len() * self.of(*per);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_taken_once() {
        let counts = BodyCounts {
            islands: 3,
            creators: 2,
            days: 4,
        };
        let mut places = Vec::new();
        for (endpoints, per) in LAYOUT {
            for number in 0..counts.of(*per) {
                places.extend(endpoints.iter().map(|one| {
                    let (found, first, distance) = counts.find(*one).unwrap();
                    assert_eq!(found, *per);
                    first + number * distance
                }));
            }
        }
        let all: Vec<usize> = (0..counts.total()).collect();
        assert_eq!(places, all);
        assert_eq!(counts.find(Endpoint::Live), None);
    }
}
