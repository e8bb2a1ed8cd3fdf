#!/usr/bin/env bash
# Trains one network on three hosts, and loses one of them at random moments.
#
# The hosts are network namespaces of this machine, which a bridge in a fourth one joins; nothing of the
# machine's own network is touched. Each runs one process of `mezzo train`, started by MASTER_ADDR,
# MASTER_PORT, RANK and WORLD_SIZE. Then, MOMENTS times each:
#
#   killed   one process is killed by signal 9. The others must end within 30 seconds, and one line among
#            them must say which process is gone
#   cut off  the link of one host goes down. All processes must end within 30 seconds, with one line on
#            each side of the cut
#   slowed   the link of one host carries 5 Mbit/s instead of 1 Gbit/s or more, and takes 10 ms more where
#            the kernel has netem. Training must go on to its end, with the weights of a run that nothing
#            disturbed
#
# After a loss, training is resumed from the last checkpoint: on three hosts it must end with those weights,
# too. On two, each with half as many examples more, sums have another order, so the weights differ in their
# last bits: its losses must be those of the undisturbed run to 1 in 1000, and a second such run must have
# the same weights bit for bit.
#
# usage: hosts.sh MEZZO [MOMENTS [SEED [LOSS...]]]   with the path of the command; 2 moments, a random seed,
# and all three losses: killed, cut_off, slowed. Needs root, and iproute2.
set -euo pipefail

if [ $# -lt 1 ]; then
  echo "usage: hosts.sh MEZZO [MOMENTS [SEED [LOSS...]]]" >&2
  exit 2
fi
mezzo=$(realpath "$1")
moments=${2:-2}
seed=${3:-$RANDOM}
losses=("${@:4}")
[ "${#losses[@]}" -gt 0 ] || losses=(killed cut_off slowed)
for loss in "${losses[@]}"; do
  [[ "$loss" =~ ^(killed|cut_off|slowed)$ ]] || {
    echo "hosts.sh: no loss '$loss'; there are killed, cut_off and slowed" >&2
    exit 2
  }
done
RANDOM=$seed

names=(a b c)
port=29500
last_step=60
longest_end=30 # seconds
prefix=mezzo$$
work=$(mktemp -d)
pids=()

say() { printf 'hosts: %s\n' "$*"; }
die() {
  say "failed: $*"
  for name in "${names[@]}"; do
    [ ! -s "$work/errors.$name" ] || sed "s/^/hosts: $name: /" "$work/errors.$name"
  done
  exit 1
}

[ "$(id -u)" -eq 0 ] || { echo "hosts.sh: network namespaces need root" >&2; exit 2; }
for program in ip tc; do
  command -v "$program" >/dev/null || { echo "hosts.sh: there is no $program; Debian has it in iproute2" >&2; exit 2; }
done

clean_up() {
  if [ "${#pids[@]}" -ne 0 ]; then
    { kill -9 "${pids[@]}" && wait; } 2>/dev/null || true
  fi
  for name in "${names[@]}" switch; do
    ip netns delete "$prefix-$name" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap clean_up EXIT

# A command that gives its host a name, the first argument, and becomes the rest.
make_named() {
  cat >"$work/named" <<'END'
#!/bin/sh
hostname "$1" && shift && exec "$@"
END
  chmod +x "$work/named"
}

make_hosts() {
  ip netns add "$prefix-switch"
  ip -n "$prefix-switch" link add bridge type bridge
  ip -n "$prefix-switch" link set bridge up
  local i name
  for i in "${!names[@]}"; do
    name=${names[i]}
    ip netns add "$prefix-$name"
    ip -n "$prefix-switch" link add "to-$name" type veth peer name eth0 netns "$prefix-$name"
    ip -n "$prefix-switch" link set "to-$name" master bridge up
    ip -n "$prefix-$name" address add "10.77.0.$((i + 1))/24" dev eth0
    ip -n "$prefix-$name" link set eth0 up
    ip -n "$prefix-$name" link set lo up
  done
}

# start COUNT MEZZO_OPTION...: the command on the first COUNT hosts, whose processes are ${pids[@]}.
start() {
  local count=$1 i name
  shift
  pids=()
  for ((i = 0; i < count; ++i)); do
    name=${names[i]}
    # exec throughout: the process that is known is that of mezzo itself.
    ip netns exec "$prefix-$name" env MASTER_ADDR=10.77.0.1 MASTER_PORT="$port" RANK="$i" \
      WORLD_SIZE="$count" OMP_NUM_THREADS=1 MEZZO_WATCH_SECONDS=15 unshare --uts \
      "$work/named" "$name" "$mezzo" "$@" \
      >/dev/null 2>"$work/errors.$name" &
    pids+=($!)
  done
}

step_size=600
train=(train --momentum 0.9 --quiet --steps "$last_step")
train_there() { start "$1" "${train[@]}" --batch-size "$((step_size / $1))" --checkpoint-every 5 \
  --checkpoint-dir "$work/run" --json "$work/log" --save "$work/weights" "${@:2}"; }

# The statuses of all processes, in order.
finish() {
  statuses=()
  local pid status
  for pid in "${pids[@]}"; do
    status=0
    wait "$pid" 2>/dev/null || status=$?
    statuses+=("$status")
  done
  pids=()
}

wait_for_step() {
  local patience=1200 # tenths of seconds
  until grep -q "\"step\":$1," "$work/log" 2>/dev/null; do
    sleep 0.1
    ((--patience)) || die "step $1 did not come"
    kill -0 "${pids[0]}" 2>/dev/null || die "training ended before step $1"
  done
}

random_pause() { sleep "$((RANDOM % 2)).$((RANDOM % 10))"; }

# ends_in_time RANK...: these processes end; how long that takes is $took, in milliseconds.
ends_in_time() {
  local begin=$1 rank
  shift
  for rank in "$@"; do
    while kill -0 "${pids[rank]}" 2>/dev/null; do
      took=$(($(date +%s%3N) - begin))
      ((took < longest_end * 1000)) || die "process $rank had not ended after $longest_end s"
      sleep 0.05
    done
  done
  took=$(($(date +%s%3N) - begin))
  ((took <= longest)) || longest=$took
}

# says NAME RANK REASON: what host NAME has written is one line, that process RANK is gone.
says() {
  local line="mezzo: \[distributed\] process $2 of 3 \(host ${names[$2]}, pid [0-9]+\) is gone: $3. Resume from "
  line+="the last checkpoint: the other processes have ended"
  [ "$(wc -l <"$work/errors.$1")" -eq 1 ] || die "host $1 has not written one line"
  grep -qxE "$line" "$work/errors.$1" || die "host $1 has written something else"
}

is_silent() { [ ! -s "$work/errors.$1" ] || die "host $1 has written something"; }

check_weights() { cmp -s "$work/weights" "$work/expected" || die "the weights are others than undisturbed"; }

# The loss of the last step.
last_loss() { sed -n "s/.*\"step\":$last_step,.*\"loss\":\([0-9.e-]*\)[,}].*/\1/p" "$1" | tail -n 1; }

# resume_in COUNT: from a copy of the checkpoints that the loss left.
resume_in() {
  rm -rf "$work/run"
  cp -r "$work/left" "$work/run"
  train_there "$1" --resume
  finish
  [[ " ${statuses[*]}" =~ ^( 0)+$ ]] || die "the $1 resumed processes ended with ${statuses[*]}"
}

resume() {
  rm -rf "$work/left"
  mv "$work/run" "$work/left"
  resume_in 3
  check_weights
  resume_in 2
  awk -v a="$(last_loss "$work/log")" -v b="$(last_loss "$work/expected-log")" \
    'BEGIN { exit !(a > 0 && b > 0 && (a - b) ^ 2 <= (b / 1000) ^ 2) }' ||
    die "on two hosts the last loss is $(last_loss "$work/log"), undisturbed $(last_loss "$work/expected-log")"
  mv "$work/weights" "$work/of-two"
  resume_in 2
  cmp -s "$work/weights" "$work/of-two" || die "two resumed runs on two hosts have other weights"
}

begin_run() {
  rm -rf "$work/run" "$work/log" "$work/weights"
  train_there 3
  wait_for_step 6
  random_pause
}

# speak NAME RANK NAME RANK... REASON: these hosts, and no others, have said that these processes are gone.
speak() {
  local reason=${*: -1} name speakers=()
  while [ $# -gt 1 ]; do
    says "$1" "$2" "$reason"
    speakers+=("$1")
    shift 2
  done
  for name in "${names[@]}"; do
    [[ " ${speakers[*]} " == *" $name "* ]] || is_silent "$name"
  done
}

# check_statuses RANK STATUS: this process ended with this status, and the others with 1.
check_statuses() {
  local expected=(1 1 1)
  expected[$1]=$2
  [ "${statuses[*]}" = "${expected[*]}" ] || die "the processes ended with ${statuses[*]}"
}

lose_killed() {
  local rank=$1 begin
  begin_run
  begin=$(date +%s%3N)
  kill -9 "${pids[rank]}"
  ends_in_time "$begin" 0 1 2 2>/dev/null # where bash says that the process was killed
  # Process 0 speaks for all, and process 1 if that is lost.
  if [ "$rank" -eq 0 ]; then
    speak b 0 "its connection was closed"
  else
    speak a "$rank" "its connection was closed"
  fi
  finish
  check_statuses "$rank" 137
  resume
}

lose_cut_off() {
  local rank=$1 begin missed=1
  local silent="it has been silent for 15 s"
  begin_run
  begin=$(date +%s%3N)
  ip -n "$prefix-switch" link set "to-${names[rank]}" down
  ends_in_time "$begin" 0 1 2 2>/dev/null # where bash says that the process was killed
  ip -n "$prefix-switch" link set "to-${names[rank]}" up
  if [ "$rank" -eq 0 ]; then
    # Both others are silent; the first one that is missed is named.
    ! grep -q 'process 2' "$work/errors.a" || missed=2
    speak a "$missed" b 0 "$silent"
  else
    speak a "$rank" "${names[rank]}" 0 "$silent"
  fi
  finish
  check_statuses "$rank" 1
  resume
}

# slow NAMESPACE DEVICE: what leaves by this device leaves slowly.
slow() {
  tc -n "$1" qdisc add dev "$2" root netem delay 10ms rate 5mbit 2>/dev/null ||
    tc -n "$1" qdisc add dev "$2" root tbf rate 5mbit burst 16kb latency 400ms
}

lose_slowed() {
  local name=${names[$1]} fast
  begin_run
  fast=$(slowest_step)
  slow "$prefix-$name" eth0
  slow "$prefix-switch" "to-$name"
  finish
  tc -n "$prefix-$name" qdisc delete dev eth0 root
  tc -n "$prefix-switch" qdisc delete dev "to-$name" root
  [ "${statuses[*]}" = "0 0 0" ] || die "processes with one slow host ended with ${statuses[*]}"
  check_weights
  took=$(slowest_step)
  ((took > fast)) || die "nothing was slowed: a step took $fast ms before and $took ms after"
  say "a step took up to $fast ms before, and $took ms after"
  ((took <= longest)) || longest=$took
}

# Milliseconds.
slowest_step() { sed -n 's/.*"event":"step".*"ms":\([0-9]*\)[.,}].*/\1/p' "$work/log" | sort -n | tail -n 1; }

declare -A done_by=([killed]="all had ended" [cut_off]="all had ended" [slowed]="a step was done")

make_named
make_hosts
say "three hosts; $moments moments each, seed $seed"
train_there 3
finish
[ "${statuses[*]}" = "0 0 0" ] || die "the undisturbed processes ended with ${statuses[*]}"
mv "$work/weights" "$work/expected"
mv "$work/log" "$work/expected-log"

for loss in "${losses[@]}"; do
  longest=0
  for ((moment = 1; moment <= moments; ++moment)); do
    rank=$((RANDOM % 3))
    "lose_$loss" "$rank"
    say "$loss, $moment of $moments, host ${names[rank]}: ${done_by[$loss]} after $took ms"
  done
  say "$loss, $moments times: the longest time until ${done_by[$loss]} was $longest ms"
done
