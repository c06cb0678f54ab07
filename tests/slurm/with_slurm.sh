#!/usr/bin/env bash
# Runs a command inside a real Slurm that lives for as long as the command does:
#
#   tests/slurm/with_slurm.sh sinfo
#   CPUS=8 tests/slurm/with_slurm.sh srun -n 2 hostname
#
# One munged, one slurmctld and one slurmd with CPUS processors (default 4) and a pretended GPU, in a
# scratch folder with free ports. Nothing of an installed Slurm is read or changed. Needs root, because slurmd does,
# and the packages of the group `cluster`: tools/setup.sh cluster. SLURM_FOLDER keeps the folder with its logs.
set -euo pipefail

if [[ $# -eq 0 ]]; then
  echo "with_slurm: name a command to run, such as: tests/slurm/with_slurm.sh sinfo" >&2
  exit 2
fi
if [[ $EUID -ne 0 ]]; then
  echo "with_slurm: slurmd needs root" >&2
  exit 2
fi
for program in munged slurmctld slurmd sbatch; do
  if ! PATH="$PATH:/usr/sbin" command -v "$program" >/dev/null; then
    echo "with_slurm: $program is missing; run tools/setup.sh cluster" >&2
    exit 2
  fi
done

PATH="$PATH:/usr/sbin"
folder="${SLURM_FOLDER:-$(mktemp -d /tmp/posenc_slurm_XXXXXX)}"
mkdir -p "$folder"/{state,spool,munge,log}
chmod 755 "$folder" "$folder/munge"
pids=()

# Processes of this Slurm, jobs included, have its configuration in their environment.
kill_leftovers() {
  local entry
  for entry in /proc/[0-9]*; do
    if grep -qazF "SLURM_CONF=$folder/slurm.conf" "$entry/environ" 2>/dev/null; then
      kill -9 "${entry#/proc/}" 2>/dev/null || true
    fi
  done
}

stop_all() {
  local status=$? pid
  trap - EXIT
  # The newest first: slurmd ends while slurmctld still answers.
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do kill "${pids[i]}" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do
    for _ in $(seq 50); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    kill -9 "$pid" 2>/dev/null || true
  done
  kill_leftovers
  if [[ $status -ne 0 ]]; then tail -n 15 "$folder"/log/slurm*.log >&2 || true; fi
  [[ -n "${SLURM_FOLDER:-}" ]] || rm -rf "$folder"
  exit "$status"
}
trap stop_all EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

# Two ports that nothing listens on.
read -r ctld_port slurmd_port < <(python3 - <<'PY'
import socket
sockets = [socket.socket() for _ in range(2)]
for s in sockets:
    s.bind(("127.0.0.1", 0))
print(*[s.getsockname()[1] for s in sockets])
PY
)

# A GPU needs the file of a device; any will do.
cat >"$folder/gres.conf" <<CONF
Name=gpu Type=fake File=/dev/null Flags=nvidia_gpu_env
CONF
# Slurm's defaults wait long: 30 s between SIGTERM and SIGKILL, and 2 min (cred_expire) before a job that was requeued.
cat >"$folder/slurm.conf" <<CONF
ClusterName=posenc
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=$ctld_port
SlurmdPort=$slurmd_port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket,cred_expire=5
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=100000,bf_interval=1
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
MinJobAge=600
InactiveLimit=0
GresTypes=gpu
NodeName=$(hostname) NodeAddr=127.0.0.1 CPUs=${CPUS:-4} Gres=gpu:fake:1 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=60 DefaultTime=10 State=UP
PartitionName=closed Nodes=ALL MaxTime=60 State=DOWN
CONF
export SLURM_CONF="$folder/slurm.conf"

# --force: it would refuse to run as root with a socket below /tmp.
head -c 1024 /dev/urandom >"$folder/munge/key"
chmod 600 "$folder/munge/key"
munged --force --foreground --key-file="$folder/munge/key" --socket="$folder/munge/socket" \
  --pid-file="$folder/munge/pid" --log-file="$folder/log/munged.log" --seed-file="$folder/munge/seed" \
  >"$folder/log/munged.out" 2>&1 &
pids+=($!)
for _ in $(seq 100); do [[ -S "$folder/munge/socket" ]] && break; sleep 0.1; done

slurmctld -D -i >"$folder/log/slurmctld.out" 2>&1 &
pids+=($!)
slurmd -D >"$folder/log/slurmd.out" 2>&1 &
pids+=($!)
for _ in $(seq 300); do
  [[ "$(sinfo -h -p main -o %t 2>/dev/null)" == idle ]] && break
  for pid in "${pids[@]}"; do
    if ! kill -0 "$pid" 2>/dev/null; then echo "with_slurm: a daemon ended" >&2; exit 1; fi
  done
  sleep 0.1
done
if [[ "$(sinfo -h -p main -o %t 2>/dev/null)" != idle ]]; then
  echo "with_slurm: the node is not idle after 30 s: $(sinfo -h -p main -o '%t %E' 2>&1)" >&2
  exit 1
fi

"$@"
