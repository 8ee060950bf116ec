#!/usr/bin/env bash
# Changes the code that decides, one operator at a time, and lists the changes that no unit test notices.
# Each group is built without the modules above it, which takes a second instead of half a minute.
# Needs cargo-mutants and cargo-nextest: `cargo install --locked cargo-mutants cargo-nextest`.
#   tests/mutants.sh [GROUP...]               writes target/mutants/GROUP/mutants.out
set -euo pipefail
cd "$(dirname "$0")/.."
for tool in mutants nextest; do
    command -v "cargo-$tool" >/dev/null || { echo "mutants: needs cargo-$tool, \`cargo install --locked cargo-$tool\`" >&2; exit 1; }
done

base="calendar durable model regular_file sync"
# mutate GROUP "MODULES" TESTS FILE...: MODULES are those of the crate that stay, and with `-` those below them that do not.
mutate() {
    local group=$1 modules=$2 tests=$3 files=() file copy=$PWD/target/mutants/tree
    shift 3
    rm -rf "$copy"
    mkdir -p "$copy"
    git ls-files -z | xargs -0 cp --parents -t "$copy"
    python3 - "$copy" "$modules" <<'PYTHON'
import pathlib
import re
import sys

tree, modules = pathlib.Path(sys.argv[1]), sys.argv[2].split()


def change(file, *changes):
    text = file.read_text(encoding="utf-8")
    for pattern, replacement in changes:
        text = re.sub(pattern, replacement, text)
    file.write_text(text, encoding="utf-8")


only_lib = "autobins = false\nautotests = false\nautobenches = false\n"
targets = r"\[\[(?:bench|test|bin)\]\]\n(?:[^\[\n].*\n)*"
change(tree / "Cargo.toml", (targets, ""), (r"default-run = .*\n", only_lib))
start = r"(?:#\[.*\]\n)*(?:pub(?:\(.*?\))? )?"
kept = "|".join(module for module in modules if module[0] != "-")
change(tree / "src/lib.rs", (rf"{start}mod (?!(?:{kept});)\w+;\n", ""))
for module in modules:
    if module[0] == "-":
        parent, _, name = module[1:].rpartition("/")
        file = tree / f"src/{parent}/mod.rs"
        file = file if file.exists() else tree / f"src/{parent}.rs"
        change(file, (rf"{start}(?:mod {name}|use {name}::[^;]*);\n", ""))
PYTHON
    for file; do files+=(-f "$file"); done
    rm -rf "target/mutants/$group"
    # 2: some changes were not noticed, 3: some ended by the time limit.
    CARGO_INCREMENTAL=1 CARGO_PROFILE_TEST_OPT_LEVEL=0 CARGO_PROFILE_TEST_DEBUG=0 CARGO_TARGET_DIR=$PWD/target/mutants/build \
        cargo mutants --dir "$copy" --in-place --no-config --baseline skip --timeout 90 --build-timeout 600 \
        --features collect,tls,shared-quota --cargo-arg=--locked --test-tool nextest --output "target/mutants/$group" \
        "${files[@]}" -e '**/*tests.rs' -- --lib -E "$tests" || [ $? -le 3 ]
}

groups=("$@")
[ $# -gt 0 ] || groups=(request quota lease keys select conditional pipeline rules)
for group in "${groups[@]}"; do
    case $group in
        request) mutate request "request $base" 'test(/^request::/)' 'src/request/**' ;;
        quota) mutate quota "quota $base" 'test(/^quota::/) - test(/^quota::lease/)' 'src/quota/*.rs' ;;
        lease) mutate lease "quota $base" 'test(/^quota::lease/)' 'src/quota/lease/**' ;;
        keys) mutate keys "keys quota request $base" 'test(/^keys::/)' 'src/keys/**' ;;
        select) mutate select "snapshot publish dataset request observe site $base -publish/damage_tests -site/page_tests -site/template_tests" \
            'test(/^(snapshot::select|publish::selection_tests)::/)' src/snapshot/select.rs src/snapshot/condition.rs ;;
        conditional) mutate conditional "server snapshot dataset keys quota request observe site $base -server/accept -server/conn \
            -server/ops -server/pipeline -server/settings -server/web -server/worker -server/http/access_record \
            -server/http/body -server/http/response -server/http/worker_cache" \
            'test(/^server::http::conditional/)' src/server/http/conditional.rs ;;
        pipeline) mutate pipeline "server shared snapshot publish dataset keys quota request observe site signup tls $base \
            -server/accept -server/ops -server/worker" \
            'test(/^server::pipeline/)' src/server/pipeline.rs ;;
        rules) mutate rules "collect admin dataset observe tls $base -collect/chain_tests" \
            'test(/^collect::rules/)' src/collect/rules.rs ;;
        *) echo "mutants: no group $group; there are request, quota, lease, keys, select, conditional, pipeline and rules" >&2; exit 64 ;;
    esac
done
for group in "${groups[@]}"; do
    (cd "target/mutants/$group/mutants.out" && echo "$group: $(wc -l <caught.txt) caught, $(wc -l <timeout.txt) ended by the time limit," \
        "$(wc -l <missed.txt) not noticed, $(wc -l <unviable.txt) do not compile")
done
