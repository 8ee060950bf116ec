#!/bin/sh
# Accepts mail like sendmail, and stores it as a file in the directory named by its first argument.
cat >"$1/$(date +%s%N).mail"
