#!/usr/bin/env bash
# Makes the data of this folder: about 25 minutes of one core, most of it training. Runs that are there are kept.
set -euo pipefail
cd "$(dirname "$0")"
dataset=sme/s8a4-c1-bias-nu0p3-probit0p3-v0
run() { echo "runs/${dataset/\//-}--$1-s0"; }

sme-offline generate --nu 0.3 --sigma 0.3 --complexity 1 --overwrite
for algo in bc iql td3plusbc crr td3 sac; do
    [ -e "$(run $algo)" ] || sme-offline train $dataset --algo $algo --steps 5000
done

critics=("$(run iql)" "$(run td3plusbc)" "$(run crr)" "$(run td3)" "$(run sac)")
sme-offline evaluate "${critics[@]}" --values --figure critics.svg --json > critics.json

policies=(behavior optimal "$(run bc)" "${critics[@]}")
sme-offline ope $dataset "${policies[@]}" --json > ope.json
for horizon in 1 2 5 10 20 50 100; do
    sme-offline ope $dataset "${policies[@]}" --methods pdis,wis,wpdis --horizon $horizon --json > horizon-$horizon.json
done
sme-offline --version > versions.txt
