use super::*;
use clap::Parser;
use std::fs;
use std::path::Path;

#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: PlanCommand,
}

/// What `scalebricks plan` with these arguments prints.
fn output(arguments: &str) -> Result<String, String> {
    let command = Cli::try_parse_from(arguments.split_whitespace()).map_err(|error| error.to_string())?;
    command.command.output().map_err(|error| error.to_string())
}

/// The command lines of the help and the documents, from `plan` on.
fn commands(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.trim().strip_prefix("scalebricks plan ")).collect()
}

#[test]
fn examples_of_the_help_print_plans() {
    let examples = commands(EXAMPLES);
    assert!(examples.len() >= 4);
    for example in examples {
        let printed = output(&format!("plan {example}")).unwrap();
        if example.starts_with("flows") {
            assert!(printed.contains("Mpps at most"), "{printed}");
        } else if example.contains("--json") {
            let value: serde_json::Value = serde_json::from_str(&printed).unwrap();
            assert_eq!(value["inputs"]["rate"], 400_000_000_000_u64);
            assert_eq!(value["recommended"]["topology"]["kind"], "n_fly");
            assert_eq!(value["recommended"]["topology"]["reading"], "shared_columns");
            assert!(value["recommended"]["cost_usd"].is_number());
        } else {
            let wanted = if example.contains("--figure3") { "switched, whole" } else { "cost (US$)" };
            assert!(printed.contains(wanted), "{printed}");
        }
    }
}

#[test]
fn wrong_usage_is_refused() {
    let whole = "plan router --ports 4 --rate 10G --nic 2x10G --nics 2";
    assert!(output(whole).is_ok());
    for wrong in [
        "plan router --ports 4 --rate 10G",
        "plan router --ports 4 --rate 10 G --nic 2x10G",
        "plan router --ports 4 --rate 10G --nic 2*10G",
        "plan router --figure3 --ports 4",
        "plan router --ports -4 --rate 10G --nic 2x10G",
    ] {
        assert!(output(wrong).is_err(), "{wrong}");
    }
    for option in
        ["--server-usd -1", "--server-usd nan", "--cable-usd 1e13", "--link-rule 4", "--server-rate 0G"]
    {
        assert!(output(&format!("{whole} {option}")).is_err(), "{option}");
    }
}

#[test]
fn cores_are_planned_from_any_costs() {
    let paper = output("plan flows --paper").unwrap();
    assert!(paper.contains("7 application cores are balanced") && paper.contains("turbo"), "{paper}");
    let cycles = "--capture 35 --balance 30 --fifo 50 --l3 100 --tcp 700";
    let same = output(&format!("plan flows {cycles} --ghz 2.4")).unwrap();
    assert!(paper.starts_with(&same), "{same}");
    let value: serde_json::Value =
        serde_json::from_str(&output("plan flows --paper --json --cores 3").unwrap()).unwrap();
    assert_eq!((&value["balanced"], value["rows"].as_array().unwrap().len()), (&7.into(), 3));
    assert_eq!(value["rows"][0]["limit"], "one_core");
    for wrong in [
        "",
        "--capture 1",
        "--paper --tcp 1",
        "--paper --from x",
        "--paper --cores 0",
        "--from /does/not/exist",
    ] {
        assert!(output(&format!("plan flows {wrong}")).is_err(), "{wrong}");
    }
    let none = output("plan flows --capture 0 --balance 0 --fifo 1 --l3 1 --tcp 1").unwrap_err();
    assert!(none.contains("the input stage"), "{none}");
}

#[test]
fn prices_are_inputs() {
    let printed = output(
        "plan router --ports 4 --rate 10G --nic 2x10G --nics 2 --server-usd 1000 --nic-usd 100 --cable-usd 10 \
         --server-watts 7 --server-latency-us 3 --server-rack-units 2",
    )
    .unwrap();
    // 4 servers, 8 cards, 6 cables.
    let row = |name: &str| {
        let line = printed.lines().find(|line| line.contains(name)).unwrap();
        line.split('|').nth(2).unwrap().trim().to_owned()
    };
    assert_eq!(row("cost (US$)"), "4,860");
    assert_eq!(row("power (W)"), "28");
    assert_eq!(row("rack units"), "8");
    assert_eq!(row("latency without"), "6 to 9");
}

/// Replaces what is between the markers of a block.
fn replace(page: &str, block: &str, content: &str) -> String {
    let (begin, end) = (format!("<!-- printed {block} -->\n"), format!("<!-- until here {block} -->"));
    let (before, rest) = page.split_once(&begin).unwrap();
    let (_, after) = rest.split_once(&end).unwrap();
    format!("{before}{begin}\n{}\n\n{end}{after}", content.trim())
}

/// A page's blocks are the planner's output.
fn check_page(name: &str, blocks: &[(&str, String)]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    let written = fs::read_to_string(&path).unwrap();
    let page = blocks.iter().fold(written.clone(), |page, (block, content)| replace(&page, block, content));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
        return;
    }
    assert!(written == page, "docs/{name} is not up to date: run this test with UPDATE_DOCS=1");
}

#[test]
fn the_page_that_teaches_shows_figure_3() {
    let figure = figure3();
    check_page(
        "router.md",
        &[
            ("figure-3-servers", report::figure3_servers(&figure)),
            ("figure-3-mesh-limits", report::figure3_limits(&figure)),
        ],
    );
}

#[test]
fn the_how_to_shows_plans() {
    let plan = |arguments: &str| {
        let printed = output(&format!("plan router {arguments}")).unwrap();
        let lines: Vec<_> = arguments.split(" --").collect();
        let command = format!("scalebricks plan router {}", lines.join(" \\\n    --"));
        format!("```console\n$ {command}\n{}\n```", printed.trim_end())
    };
    check_page(
        "router-howto.md",
        &[
            ("plan-rb4", plan("--ports 4 --rate 10G --nic 2x10G --nics 2 --server-usd 3625")),
            (
                "plan-400g",
                plan(
                    "--ports 1024 --rate 400G --nic 8x100G --nics 5 --external-nic 1x400G --server-rate 1.2T \
                     --server-usd 12000 --nic-usd 2000 --cable-usd 150 --server-watts 900 --server-latency-us 15",
                ),
            ),
        ],
    );
}

#[test]
fn the_page_of_flows_shows_a_plan() {
    let printed = output("plan flows --paper --cores 9").unwrap();
    let console = format!("```console\n$ scalebricks plan flows --paper\n{}\n```", printed.trim_end());
    check_page("flows.md", &[("plan-flows", console)]);
}
