//! Reads a running server with the client that openapi-generator made of its OpenAPI document.
//!
//!     cargo run --example client BASE_URL
//!
//! Each response must have the declared types. Prints one line, or fails.

use openapi::apis::{
    configuration::Configuration, creators_api, dumps_api, islands_api, live_api, new_api, rankings_api, service_api,
};
use openapi::models::{CcuHistoryCcuInnerInner as Item, CreatedIn, health::Status};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Configuration {
        base_path: std::env::args().nth(1).ok_or("the base URL is missing")?,
        ..Configuration::new()
    };
    let index = service_api::get_index(&server).await?;
    assert_eq!(index.version, "v1");
    let health = service_api::get_health(&server).await?;
    assert_eq!(health.status, Status::Ok);
    let tool = Some(CreatedIn::Uefn);
    let (sort, order) = (Some("plays"), Some("asc"));
    let islands = islands_api::list_islands(&server, None, None, tool, None, sort, order, Some(200), None);
    let islands = islands.await?.islands;
    let code = &islands[0].code;
    let island = islands_api::get_island(&server, code).await?.island;
    assert!(island.code == *code && !island.series.is_empty());
    let history = islands_api::get_island_ccu(&server, code).await?.ccu;
    assert!(matches!(history[0][..], [Item::String(_), Item::Integer(_)]));
    let creators = creators_api::list_creators(&server, None, None, None).await?.creators;
    let creator = creators_api::get_creator(&server, &creators[0].slug).await?.creator;
    assert_eq!(i64::try_from(creator.islands.len())?, creator.island_count);
    let live = live_api::get_live(&server).await?;
    let points = live_api::get_intraday(&server).await?.points;
    assert_eq!(points.last().map(|point| point[0]), Some(live.time));
    let days = rankings_api::list_ranking_days(&server).await?.days;
    assert_eq!(rankings_api::get_ranking(&server, &days[0].to_string()).await?.ranking.len(), 10);
    let days = new_api::list_new_days(&server).await?.days;
    new_api::get_new_islands(&server, &days[0].to_string()).await?;
    assert!(!dumps_api::get_dump_index(&server).await?.files.is_empty());
    println!("client.rs: all types are as declared");
    Ok(())
}
