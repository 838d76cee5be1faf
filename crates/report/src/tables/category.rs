//! The categories of the time breakdown as columns.

use model::TimeCategory;

/// The name of a category, as in the JSON.
pub(super) fn name(category: TimeCategory) -> &'static str {
    match category {
        TimeCategory::Connect => "connect",
        TimeCategory::SynWait => "syn-wait",
        TimeCategory::ServerThink => "server-think",
        TimeCategory::ClientIdle => "client-idle",
        TimeCategory::DelayedAck => "delayed-ack",
        TimeCategory::Loss => "loss",
        TimeCategory::ReceiverStalled => "receiver-stalled",
        TimeCategory::ReceiveWindow => "receive-window",
        TimeCategory::Application => "application",
        TimeCategory::Network => "network",
        TimeCategory::Unexplained => "unexplained",
    }
}

/// The name of the column with its time.
pub(super) fn column_name(category: TimeCategory) -> String {
    format!("{}_us", name(category).replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_json() {
        for category in TimeCategory::ALL {
            assert_eq!(serde_json::json!(category), name(category));
        }
    }
}
