use super::*;
use crate::engine::WriterId;
use crate::partition::Void;
use proptest::prelude::*;
use scalebricks_types::Position;

fn verdict() -> impl Strategy<Value = Verdict> {
    let voids = prop::collection::btree_set(any::<u32>(), 0..80);
    (any::<u64>(), voids, any::<bool>()).prop_map(|(position, voids, is_void)| {
        let voids = voids.into_iter().map(|number| (number, Void::Missing)).collect();
        let done = Verdict::done(Position(position), voids);
        if is_void { Verdict::void(Position(position), Void::NoRoom) } else { done }
    })
}

fn answer() -> impl Strategy<Value = Answer> {
    let refusal = prop_oneof![
        Just(Refusal::NotOwner),
        Just(Refusal::Busy),
        Just(Refusal::NoRoom),
        Just(Refusal::Delayed),
        any::<u8>().prop_map(|node| Refusal::NodeFull(NodeId::new(node))),
        "\\PC{0,60}".prop_map(Refusal::Log),
    ];
    let reply = prop_oneof![verdict().prop_map(Reply::Judged), refusal.prop_map(Reply::Refused)];
    (any::<u64>(), any::<u64>(), reply)
        .prop_map(|(by, number, reply)| Answer { id: CallId { by: WriterId(by), number }, reply })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn answers_survive_and_no_part_of_them_does(
        answers in prop::collection::vec(answer(), 0..5), at: prop::sample::Index, octet: u8
    ) {
        let mut bytes = borsh::to_vec(&answers).unwrap();
        prop_assert_eq!(borsh::from_slice::<Vec<Answer>>(&bytes).unwrap(), answers);
        for len in 0..bytes.len() {
            prop_assert!(borsh::from_slice::<Vec<Answer>>(&bytes[..len]).is_err());
        }
        let at = at.index(bytes.len());
        bytes[at] = octet;
        if let Ok(answers) = borsh::from_slice::<Vec<Answer>>(&bytes) {
            prop_assert_eq!(borsh::to_vec(&answers).unwrap(), bytes);
        }
    }
}
