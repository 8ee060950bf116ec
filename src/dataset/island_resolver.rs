//! Lookup of islands by code, for the rows of daily, ccu and live files.

use super::csv_table::CsvTable;
use crate::model::IslandCode;

/// Codes of all islands, ascending.
#[derive(Debug, Default)]
pub(super) struct IslandCodes {
    codes: Vec<IslandCode>,
    /// Whether islands.csv has faults, in which case codes may be missing here.
    is_faulty: bool,
}

impl IslandCodes {
    /// Creates the list from ascending codes.
    pub(super) fn new(codes: Vec<IslandCode>, is_faulty: bool) -> IslandCodes {
        IslandCodes { codes, is_faulty }
    }
}

/// Finder of islands by code, which also detects duplicates within a file.
#[derive(Debug)]
pub(super) struct IslandResolver<'a> {
    codes: &'a IslandCodes,
    /// Line of the current file on which each island was found; 0 if it was not.
    lines: Vec<u64>,
    /// Position after the island found last. Files are mostly sorted, so the next island is near.
    next: usize,
    /// Rows of the current file with an unknown code, counted only while islands.csv has faults.
    unknown: UnknownCodes,
}

/// Count of rows with an unknown code, and the line of the first one.
#[derive(Clone, Copy, Debug, Default)]
struct UnknownCodes {
    rows: u64,
    first_line: u64,
}

impl<'a> IslandResolver<'a> {
    pub(super) fn new(codes: &'a IslandCodes) -> IslandResolver<'a> {
        IslandResolver {
            codes,
            lines: vec![0; codes.codes.len()],
            next: 0,
            unknown: UnknownCodes::default(),
        }
    }

    /// Resets the state for the next file.
    pub(super) fn start_file(&mut self) {
        self.lines.fill(0);
        self.next = 0;
        self.unknown = UnknownCodes::default();
    }

    /// Returns one fault for all rows of the current file with an unknown code, if islands.csv has
    /// faults that may be the cause. `None` if there are no such rows, or if islands.csv has no valid
    /// island.
    pub(super) fn unknown_codes_fault(&self) -> Option<String> {
        let UnknownCodes { rows, first_line } = self.unknown;
        if rows == 0 || self.codes.codes.is_empty() {
            return None;
        }
        let places = match rows {
            1 => format!("1, on line {first_line}"),
            _ => format!("{rows}, the first on line {first_line}"),
        };
        Some(format!(
            "codes must be in islands.csv, got rows with other codes: {places}; correct islands.csv first"
        ))
    }

    /// Returns the island of column 0, if the code is known and this is its first row.
    pub(super) fn resolve(&mut self, table: &mut CsvTable<'_>) -> Option<u32> {
        let code = table.code(0)?;
        let Some(at) = self.find(code) else {
            // It may be caused by a fault of islands.csv, so rows are counted instead of reported one by
            // one.
            if self.codes.is_faulty {
                if self.unknown.rows == 0 {
                    self.unknown.first_line = table.line();
                }
                self.unknown.rows += 1;
                return None;
            }
            table.fault(0, format!("code must be in islands.csv, got \"{code}\""));
            return None;
        };
        self.next = at + 1;
        let first = std::mem::replace(&mut self.lines[at], table.line());
        if first != 0 {
            table.duplicate_fault(0, first);
            return None;
        }
        Some(u32::try_from(at).expect("2^32 islands fit in no memory"))
    }

    /// Searches by galloping from the island found last, or by bisecting everything before it.
    fn find(&self, code: IslandCode) -> Option<usize> {
        let codes = &self.codes.codes;
        let ahead = self.next < codes.len() && codes[self.next] <= code;
        let (from, to) = if ahead {
            let mut span = 1;
            let reaches = |at: usize| codes.get(at).is_some_and(|other| *other <= code);
            while reaches(self.next + span) {
                span *= 2;
            }
            (self.next + span / 2, codes.len().min(self.next + span))
        } else {
            (0, self.next)
        };
        codes[from..to]
            .binary_search(&code)
            .ok()
            .map(|at| from + at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_found_from_every_position() {
        let code = |number| IslandCode::from_number(number).unwrap();
        let codes = IslandCodes::new((0..40).map(|number| code(2 * number + 1)).collect(), false);
        let mut index = IslandResolver::new(&codes);
        for next in 0..=40 {
            index.next = next;
            for number in 0..82 {
                let at = usize::try_from(number / 2).unwrap();
                let want = (number % 2 == 1 && at < 40).then_some(at);
                assert_eq!(index.find(code(number)), want, "{number} from {next}");
            }
        }
    }
}
