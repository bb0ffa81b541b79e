//! TLS from the proxy to the service.

use std::fs;

use sluicegate_testkit::servers::{Authority, EnvoyServer};

use super::documented::{page, snippets};
use super::{PATIENT, ask, rate_limit_filter, route_of_users};
use crate::envoy::start;

/// The folder in the documentation.
const FOLDER: &str = "/etc/envoy/tls";

#[test]
fn the_documented_cluster_calls_a_service_with_certificates_on_both_sides() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path();
    let authority = Authority::new().unwrap();
    fs::copy(authority.certificate_file(), folder.join("ca.pem")).unwrap();
    for (name, label) in [("sluicegate", "server"), ("edge", "client")] {
        let certificate = authority.certificate(label, &[name]).unwrap();
        fs::copy(certificate.certificate_file(), folder.join(format!("{label}.pem"))).unwrap();
        fs::copy(certificate.key_file(), folder.join(format!("{label}.key"))).unwrap();
    }
    let rules = folder.join("rules");
    fs::create_dir(&rules).unwrap();
    let text = "domain: edge\ndescriptors:\n  - key: user\n    rate_limit: {unit: year, requests_per_unit: 2}\n";
    fs::write(rules.join("edge.yaml"), text).unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    let variables = [
        ("GRPC_SERVER_USE_TLS", "true"),
        ("GRPC_SERVER_TLS_CERT", &path("server.pem")),
        ("GRPC_SERVER_TLS_KEY", &path("server.key")),
        ("GRPC_CLIENT_TLS_CACERT", &path("ca.pem")),
        ("GRPC_CLIENT_TLS_SAN", "edge"),
    ];
    let service = start(&variables, &["--config", rules.to_str().unwrap()]);
    let found = snippets(&page(), "transport_socket:");
    let [documented] = &found[..] else { panic!("{found:?}") };
    assert!(documented.contains(FOLDER));
    let statuses = |socket: &str| {
        let socket = socket.replace(FOLDER, folder.to_str().unwrap());
        let envoy = EnvoyServer::calling(service.address_of("grpc"))
            .filters(&rate_limit_filter(&format!("{PATIENT}\n    failure_mode_deny: true")))
            .routes(&route_of_users("/", &[""]))
            .transport(&socket)
            .start()
            .unwrap();
        [(); 3].map(|()| ask(&envoy, "/", &[("x-user", "alice")]).status)
    };
    assert_eq!(statuses(documented), [200, 200, 429]);
    // The service has another name, and the client's certificate is that of the service.
    let wrong_service = documented.replace("exact: sluicegate", "exact: other");
    assert_eq!(statuses(&wrong_service), [500; 3]);
    let wrong_client = documented.replace("client.", "server.");
    assert_eq!(statuses(&wrong_client), [500; 3]);
}
