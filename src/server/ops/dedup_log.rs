//! `Once`: a complaint that lasts is made once. `Reloads`: how often it was, and how often not.

use crate::observe::Count;

/// How often something was taken in anew, and how often it was refused.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    pub(crate) taken: Count,
    pub(crate) refused: Count,
}

/// The last complaint.
#[derive(Debug, Default)]
pub(crate) struct Once(String);

impl Once {
    /// Says it, unless it is what was said last. Returns whether it was said.
    pub(crate) fn say(&mut self, say: &dyn Fn(&str), complaint: String) -> bool {
        let is_new = self.0 != complaint;
        if is_new {
            say(&complaint);
            self.0 = complaint;
        }
        is_new
    }
}
