#!/bin/sh
# Stands in for `msb` 0.7: the verbs and options that norma uses, as `msb --help` lists them, and what its doctor prints on
# a machine that boots no guest, as it was recorded. A "machine" is a file that names the mounted directory; a command runs
# on this machine in that directory, with the guest's paths replaced. $MSB_HOME/behaviour says how to misbehave.
home=${MSB_HOME:?}
mkdir -p "$home/machines"
printf '%s\n' "$*" >> "$home/log"
behaviour=$(cat "$home/behaviour" 2>/dev/null)

there() { printf '%s' "$1" | sed "s#/norma\\([/:]\\|\$\\)#$mount\\1#g"; }

verb=$1
shift
case $verb in
doctor)
    if [ "$behaviour" = no-guest ]; then
        cat >&2 <<'TEXT'
  • Platform            Linux x86_64
  • Version             v0.7.11
  ✓ msb                 /opt/msb
  ✗ CPU virt            not found
  ✓ KVM device          /dev/kvm
  ✓ KVM access          read/write
error: CPU virtualization is not available
  → no vmx (Intel) or svm (AMD) flag in /proc/cpuinfo
  → enable virtualization (VT-x / AMD-V) in your BIOS or UEFI firmware
TEXT
        exit 1
    fi
    ;;
create)
    while [ $# -gt 0 ]; do
        case $1 in
        --name) name=$2; shift 2 ;;
        --mount-dir) mount=${2%:/norma}; shift 2 ;;
        --security | --memory | --max-duration | --pull) shift 2 ;;
        --quiet | --no-net) shift ;;
        --) image=$2; shift 2 ;;
        *) echo "error: unexpected argument '$1' found" >&2; exit 2 ;;
        esac
    done
    printf '%s\n' "$mount" > "$home/machines/$name"
    case $behaviour in
    create-fails) echo "error: image not found: $image" >&2; exit 1 ;;
    create-hangs) sleep 600 ;;
    esac
    ;;
exec)
    while [ $# -gt 0 ]; do
        case $1 in
        --workdir) workdir=$2; shift 2 ;;
        --env) pairs="$pairs
$2"; shift 2 ;;
        --quiet | --no-tty | --no-stdin | --stream)
            [ "$1" = --no-stdin ] && exec < /dev/null
            shift ;;
        --) shift; break ;;
        *) name=$1; shift ;;
        esac
    done
    mount=$(cat "$home/machines/$name" 2>/dev/null) || { echo "error: sandbox '$name' not found" >&2; exit 1; }
    case $behaviour in
    exec-dies) kill -9 $$ ;;
    link-out) ln -s /etc/passwd "$mount/work/stolen"; mkfifo "$mount/work/pipe" ;;
    floods) yes 2>/dev/null | head -c 50000000 ;;
    esac
    count=$#
    while [ "$count" -gt 0 ]; do
        word=$(there "$1")
        shift
        set -- "$@" "$word"
        count=$((count - 1))
    done
    cd "$(there "$workdir")" || exit 1
    IFS='
'
    for pair in $pairs; do
        export "$(there "$pair")"
    done
    command -v "$1" > /dev/null 2>&1 || { echo "error: failed to spawn $1: No such file or directory (os error 2)" >&2; exit 127; }
    "$@"
    exit $?
    ;;
remove)
    for name in "$@"; do
        case $name in --*) ;; *) rm -f "$home/machines/$name" ;; esac
    done
    ;;
*)
    echo "error: unrecognized subcommand '$verb'" >&2
    exit 2
    ;;
esac
