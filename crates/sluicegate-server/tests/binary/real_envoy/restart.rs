//! Restarts of the service under load.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::process::Signal;
use sluicegate_testkit::servers::EnvoyServer;
use sluicegate_testkit::wait::until;

use super::{PATIENT, rate_limit_filter, route_of_users, send};
use crate::support::{Client, File, Service};

/// Returns the cluster with two addresses, and health checks that take effect immediately.
fn cluster(addresses: [SocketAddr; 2]) -> String {
    let [one, other] = addresses.map(|it| {
        let port = it.port();
        format!(
            "{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}}}"
        )
    });
    format!(
        r#"
- name: sluicegate
  common_lb_config: {{update_merge_window: 0s}}
  health_checks:
  - timeout: 1s
    interval: 0.05s
    no_traffic_interval: 0.05s
    unhealthy_threshold: 1
    healthy_threshold: 1
    grpc_health_check: {{}}
  typed_extension_protocol_options:
    envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
      "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
      explicit_http_config: {{http2_protocol_options: {{}}}}
  load_assignment:
    cluster_name: sluicegate
    endpoints:
    - lb_endpoints: [{one}, {other}]
"#
    )
}

/// Stops the load when it is dropped, so that a test that fails ends.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends requests until it must stop. Returns the number of each status.
fn load(envoy: &EnvoyServer, stops: &AtomicBool, count: &AtomicU64) -> BTreeMap<u16, u64> {
    let mut client = Client::connect(envoy.address()).unwrap();
    let mut statuses = BTreeMap::new();
    while !stops.load(Ordering::Relaxed) {
        let reply = send(&mut client, "/", &[("x-user", "alice")]);
        *statuses.entry(reply.status).or_default() += 1;
        count.fetch_add(1, Ordering::Relaxed);
    }
    statuses
}

#[test]
fn instances_that_restart_one_after_another_lose_no_request() {
    let text = "limits: {tenant: {policies: [fixed_window 1000000000/h]}}\n\
                envoy: {domains: {edge: [{match: {user: \"*\"}, limit: tenant}]}}";
    let file = File::new("limits.yaml", text);
    let start = |address: &str| {
        let args = ["--config", file.path(), "--grpc", address, "--drain", "2s"];
        Service::start(&args)
    };
    let mut instances = [start("127.0.0.1:0"), start("127.0.0.1:0")];
    let addresses = [0, 1].map(|index: usize| instances[index].address_of("grpc"));
    let envoy = EnvoyServer::calling(addresses[0])
        .filters(&rate_limit_filter(&format!("{PATIENT}\n    failure_mode_deny: true")))
        .routes(&route_of_users("/", &[""]))
        .clusters(&cluster(addresses))
        .start()
        .unwrap();
    let both_are_healthy = || {
        let healthy = "cluster.sluicegate.membership_healthy";
        until("two healthy instances", || match envoy.statistic(healthy).unwrap() {
            2 => Ok(()),
            other => Err(other),
        });
    };
    both_are_healthy();
    let (stops, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let more_arrive = || {
        let before = count.load(Ordering::Relaxed);
        until("a hundred more requests", || match count.load(Ordering::Relaxed) - before {
            100.. => Ok(()),
            fewer => Err(fewer),
        });
    };
    let statuses = std::thread::scope(|scope| {
        let loading = scope.spawn(|| load(&envoy, &stops, &count));
        let stopping = Stopping(&stops);
        for (instance, address) in instances.iter_mut().zip(addresses) {
            more_arrive();
            instance.signal(Signal::TERM);
            assert!(instance.wait().0.success());
            *instance = start(&address.to_string());
            both_are_healthy();
        }
        more_arrive();
        drop(stopping);
        loading.join().unwrap()
    });
    assert_eq!(statuses.keys().collect::<Vec<_>>(), [&200], "{statuses:?}");
    assert!(envoy.statistic("cluster.sluicegate.upstream_cx_close_notify").unwrap() > 0, "GOAWAY");
}
