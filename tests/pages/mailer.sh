#!/bin/sh
# Takes mail as sendmail does, and keeps it as a file of the folder that its first argument names.
cat >"$1/$(date +%s%N).mail"
