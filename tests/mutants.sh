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

base="arena calendar durable model regular_file sync"
# mutate GROUP "MODULES" TESTS FILE...: MODULES are those of the crate that stay, or `all`.
mutate() {
    local group=$1 modules=$2 tests=$3 files=() file copy=$PWD/target/mutants/tree
    shift 3
    rm -rf "$copy"
    mkdir -p "$copy"
    git ls-files -z | xargs -0 cp --parents -t "$copy"
    python3 - "$copy" "$modules" <<'PYTHON'
import re
import sys

tree, modules = sys.argv[1], sys.argv[2].split()
with open(f"{tree}/Cargo.toml", encoding="utf-8") as file:
    manifest = file.read()
manifest = re.sub(r"\[\[(?:bench|test|bin)\]\]\n(?:[^\[\n].*\n)*", "", manifest)
only_lib = "autobins = false\nautotests = false\nautobenches = false\n"
with open(f"{tree}/Cargo.toml", "w", encoding="utf-8") as file:
    file.write(re.sub(r"default-run = .*\n", only_lib, manifest))
if modules != ["all"]:
    with open(f"{tree}/src/lib.rs", encoding="utf-8") as file:
        lib = file.read()
    others = rf"(?:#\[cfg.*\]\n)?(?:pub )?mod (?!(?:{'|'.join(modules)});)\w+;\n"
    with open(f"{tree}/src/lib.rs", "w", encoding="utf-8") as file:
        file.write(re.sub(others, "", lib))
PYTHON
    for file; do files+=(-f "$file"); done
    rm -rf "target/mutants/$group"
    # 2: some changes were not noticed, 3: some ended by the time limit.
    CARGO_INCREMENTAL=1 CARGO_PROFILE_TEST_OPT_LEVEL=0 CARGO_PROFILE_TEST_DEBUG=0 CARGO_TARGET_DIR=$PWD/target/mutants/build \
        cargo mutants --dir "$copy" --in-place --no-config --baseline skip --timeout 90 --build-timeout 600 \
        --features collect,tls,shared-quota --cargo-arg=--locked --test-tool nextest --output "target/mutants/$group" \
        "${files[@]}" -e '**/*_tests.rs' -- --lib -E "$tests" || [ $? -le 3 ]
}

groups=("$@")
[ $# -gt 0 ] || groups=(request quota lease keys select conditional rules)
for group in "${groups[@]}"; do
    case $group in
        request) mutate request "request $base" 'test(/^request::/)' 'src/request/**' ;;
        quota) mutate quota "quota $base" 'test(/^quota::/)' 'src/quota/*.rs' 'src/quota/anonymous/**' ;;
        lease) mutate lease "quota $base" 'test(/^quota::lease/)' 'src/quota/lease/**' ;;
        keys) mutate keys "keys quota request $base" 'test(/^keys::/)' 'src/keys/**' ;;
        select) mutate select "snapshot publish dataset keys quota request observe site $base" \
            'test(/^(snapshot|publish)::/)' src/snapshot/select.rs src/snapshot/condition.rs ;;
        conditional) mutate conditional all 'test(/^server::/)' src/server/http/conditional.rs src/server/pipeline.rs ;;
        rules) mutate rules all 'test(/^collect::/)' src/collect/rules.rs ;;
        *) echo "mutants: no group $group; there are request, quota, lease, keys, select, conditional and rules" >&2; exit 64 ;;
    esac
done
for group in "${groups[@]}"; do
    (cd "target/mutants/$group/mutants.out" && echo "$group: $(wc -l <caught.txt) caught, $(wc -l <timeout.txt) ended by the time limit," \
        "$(wc -l <missed.txt) not noticed, $(wc -l <unviable.txt) do not compile")
done
