//! Maps for tests.

use maps::{OsdMap, Pool, pool_flags, pool_type, state};
use types::PoolId;

/// A map of hosts, each a list of the weights of its OSDs in the CRUSH map; a rule that keeps `domain` apart.
pub(crate) fn cluster(hosts: &[Vec<f64>], domain: &str) -> OsdMap {
    let mut crush = crush::Map::new();
    let root = crush.type_id("root").unwrap();
    crush.add_bucket(root, "default", crush::Alg::Straw2).unwrap();
    let mut osd = 0;
    for (n, weights) in hosts.iter().enumerate() {
        let place =
            crush::Location::parse(["root=default".to_string(), format!("rack=r{}", n / 4), format!("host=h{n}")]).unwrap();
        for weight in weights {
            crush.insert_item(osd, (weight * f64::from(crush::ONE)) as u32, &format!("osd.{osd}"), &place).unwrap();
            osd += 1;
        }
    }
    let spec = crush::RuleSpec {
        name: "rule".into(),
        root: "default".into(),
        failure_domain: domain.into(),
        kind: pool_type::REPLICATED,
        ..crush::RuleSpec::default()
    };
    crush.add_simple_rule(&spec).unwrap();
    let mut map =
        OsdMap { epoch: 1, level: types::level::Levels::OWN.newest, crush: std::sync::Arc::new(crush), ..OsdMap::default() };
    map.set_max_osd(osd);
    map.osd_state.fill(state::EXISTS | state::UP);
    map.osd_weight.fill(crush::ONE);
    map
}

/// Adds a pool.
pub(crate) fn pool(map: &mut OsdMap, id: PoolId, size: u8, groups: u32) {
    let pool = Pool {
        type_: pool_type::REPLICATED,
        size,
        min_size: 1,
        object_hash: 2,
        pg_num: groups,
        pgp_num: groups,
        pg_num_target: groups,
        pgp_num_target: groups,
        pg_num_pending: groups,
        flags: pool_flags::HASHPSPOOL,
        ..Pool::default()
    };
    map.pools.insert(id, pool);
    map.pool_name.insert(id, format!("p{id}"));
    map.pool_max = map.pool_max.max(id as i32);
    map.forget_placements();
}
