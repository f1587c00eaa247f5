//! Access categories of 802.11n, ac and ax in a WLAN (EDCA).
//!
//! Defaults: IEEE Std 802.11-2020, table 9-155, except that the TXOP limits of background and best effort are 0, as
//! in the standard of 2012 and in WMM.

use super::wlan::{Wlan, WlanCategoryKeys};
use super::{Flow, Scenario};
use lasthop_base::schema::error::{ScenarioError, suggestion};
use lasthop_base::schema::keys::{Node, Read, one_of};
use lasthop_base::units::Duration;
use lasthop_wlan::phy::qos::{AccessCategory, Dscp, DscpMap};

/// Parameters of an access category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// Slots of its AIFS.
    pub aifsn: u32,
    /// Contention windows, in slots.
    pub cw_min: u32,
    pub cw_max: u32,
    /// Maximum duration of a TXOP; 0: one PPDU.
    pub txop_limit: Duration,
}

impl Wlan {
    /// Returns `true` if hosts have a queue and a backoff for each access category.
    pub(crate) fn has_categories(&self) -> bool {
        self.keys.edca == Some(true)
    }

    /// Returns the keys of an access category, if any are set.
    fn category_keys(&self, category: AccessCategory) -> Option<&WlanCategoryKeys> {
        let mut own = self.keys.category.iter().flatten();
        own.find(|one| one.name == category.word()).map(|one| &one.keys)
    }

    /// Returns the slots of the AIFS of an access category.
    fn aifsn(&self, category: AccessCategory) -> u32 {
        let default = match category {
            AccessCategory::Background => 7,
            AccessCategory::BestEffort => 3,
            AccessCategory::Video | AccessCategory::Voice => 2,
        };
        self.category_keys(category).and_then(|keys| keys.aifsn).unwrap_or(default)
    }

    /// Returns the smallest AIFSN of the access categories.
    pub(super) fn smallest_aifsn(&self) -> u32 {
        let all = AccessCategory::ALL.into_iter().map(|category| self.aifsn(category));
        all.min().unwrap_or_default()
    }

    /// Returns the parameters of an access category.
    pub(crate) fn access(&self, category: AccessCategory) -> Access {
        let timing = self.timing();
        let (least, most) = (timing.cw_min, timing.cw_max);
        let part = |parts: u32| ((least + 1) / parts).saturating_sub(1);
        let (cw_min, cw_max, micros) = match category {
            AccessCategory::Background | AccessCategory::BestEffort => (least, most, 0),
            AccessCategory::Video => (part(2), least, 4_096),
            AccessCategory::Voice => (part(4), part(2), 2_080),
        };
        let keys = self.category_keys(category);
        let limit = keys.and_then(|keys| keys.txop_limit);
        Access {
            aifsn: self.aifsn(category),
            cw_min: keys.and_then(|keys| keys.cw_min).unwrap_or(cw_min),
            cw_max: keys.and_then(|keys| keys.cw_max).unwrap_or(cw_max),
            txop_limit: limit.unwrap_or(Duration::from_nanos(micros * 1_000)),
        }
    }

    /// Checks the keys of access categories.
    pub(super) fn check_categories(&self, node: &Node<'_>) -> Read<()> {
        let keys = &self.keys;
        for one in keys.category.iter().flatten() {
            let names = || AccessCategory::ALL.iter().map(|category| category.word());
            let path = format!("{}.category", node.path);
            let Some(category) = AccessCategory::ALL.into_iter().find(|it| it.word() == one.name)
            else {
                let near = suggestion(&one.name, names());
                let allowed = one_of(names());
                return Err(ScenarioError::new(path, format!("{:?}{near}", one.name), allowed));
            };
            if !self.has_categories() {
                let allowed = "no category, or edca = true";
                return Err(ScenarioError::new(path, "a category without edca", allowed));
            }
            let Access { cw_min, cw_max, .. } = self.access(category);
            if cw_min > cw_max {
                let found = format!("a window from {cw_min} to {cw_max}");
                let path = format!("{path}.{}.cw_min", one.name);
                return Err(ScenarioError::new(path, found, "cw_min up to cw_max"));
            }
        }
        Ok(())
    }
}

impl Flow {
    /// Returns the access category of its packets (RFC 8325).
    pub(crate) fn category(&self) -> AccessCategory {
        AccessCategory::of_dscp(DscpMap::Rfc8325, self.dscp.map_or(0, Dscp::code))
    }
}

impl Scenario {
    /// Returns the access categories that flows use in a WLAN, best effort first.
    pub(crate) fn categories(&self, wlan: &Wlan) -> Vec<AccessCategory> {
        let mut used = vec![AccessCategory::BestEffort];
        if wlan.has_categories() {
            for flow in self.flows.iter() {
                let category = flow.category();
                if !used.contains(&category) {
                    used.push(category);
                }
            }
        }
        used
    }

    /// Returns the place of a flow's access category in that list; 0 without access categories.
    pub(crate) fn category_place(&self, flow: &Flow) -> u8 {
        let mut wlans = self.wlans.iter().filter(|wlan| wlan.has_categories());
        let Some(wlan) = wlans.next() else { return 0 };
        let category = flow.category();
        let place = self.categories(wlan).iter().position(|&known| known == category);
        place.unwrap_or(0) as u8
    }
}
