#!/bin/bash
# The command of the head pod: Ray as KubeRay wants it started, and the main server beside it, with the arguments given here.
# The pod ends as soon as either of them does; asked to end, the main server takes leave of its nodes first.
set -u
ulimit -n 65536 2>/dev/null || true

ray=
asked=
leave() {
    asked=yes
    # $! is what was started last: the main server from its first moment on.
    if [ -n "$ray" ] && [ "$!" != "$ray" ]; then kill -TERM "$!" 2>/dev/null; else exit 143; fi
}
trap leave TERM INT

$KUBERAY_GEN_RAY_START_CMD &
ray=$!
until ray health-check --address "127.0.0.1:${RAY_PORT:-6379}" >/dev/null 2>&1; do
    kill -0 "$ray" 2>/dev/null || { echo "samepath-main: Ray has ended before it began" >&2; exit 1; }
    sleep 1
done

# A journal that holds something is gone on with: the main server that kept it has failed, and this is its next start.
if [ -n "${SAMEPATH_JOURNAL:-}" ] && ls "$SAMEPATH_JOURNAL"/part-*.journal >/dev/null 2>&1; then
    samepath cluster resume "$SAMEPATH_JOURNAL" &
else
    samepath cluster start --ray auto ${SAMEPATH_JOURNAL:+--journal "$SAMEPATH_JOURNAL"} "$@" &
fi
main=$!
wait -n "$ray" "$main"
code=$?
if [ -n "$asked" ]; then
    # The signal ended that wait, not one of the two.
    wait "$main"
    code=$?
elif kill -TERM "$main" 2>/dev/null; then
    wait "$main"
fi
exit "$code"
