//! The islands by code, for resolving the rows of the other files.

use super::csv_table::CsvTable;
use crate::model::IslandCode;

/// The codes of all islands, ascending.
#[derive(Debug, Default)]
pub(super) struct IslandCodes {
    codes: Vec<IslandCode>,
    /// Whether islands.csv has faults, so that it may lack codes for them.
    is_faulty: bool,
}

impl IslandCodes {
    /// Of islands by code ascending, and whether islands.csv has faults.
    pub(super) fn new(codes: Vec<IslandCode>, is_faulty: bool) -> IslandCodes {
        IslandCodes { codes, is_faulty }
    }
}

/// Finds islands by code, and knows which ones the present file had.
#[derive(Debug)]
pub(super) struct IslandResolver<'a> {
    codes: &'a IslandCodes,
    /// The line of the present file that each island was on; 0 for none yet.
    lines: Vec<u64>,
    /// One past the island found last: files are mostly sorted, so the next one is near.
    next: usize,
    /// Rows of the present file that name no island, while islands.csv has faults.
    unknown: UnknownCodes,
}

/// Rows that name no island: how many, and the line of the first.
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

    /// Forgets what the file before had.
    pub(super) fn start_file(&mut self) {
        self.lines.fill(0);
        self.next = 0;
        self.unknown = UnknownCodes::default();
    }

    /// The one fault of all rows of the present file that name no island, where the cause may be a fault
    /// of islands.csv; `None` if there are none, or if it gave no island at all.
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

    /// The island that column 0 of the row names, if it is one and this is its first row.
    pub(super) fn resolve(&mut self, table: &mut CsvTable<'_>) -> Option<u32> {
        let code = table.code(0)?;
        let Some(at) = self.find(code) else {
            // It may follow from a fault of islands.csv: not one more for each row.
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

    /// Gallops ahead from the island found last, or searches all that is before it.
    fn find(&self, code: IslandCode) -> Option<usize> {
        let codes = &self.codes.codes;
        let ahead = self.next < codes.len() && codes[self.next] <= code;
        let (from, to) = if ahead {
            let mut span = 1;
            let reaches = |at: usize| codes.get(at).is_some_and(|held| *held <= code);
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
