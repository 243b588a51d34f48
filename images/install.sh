#!/bin/sh
# Installs the contents of one image from the lock into an empty folder: a venv with the wheel of the program and its
# dependencies. The Dockerfile and its test (tests/integration/images) both run this script.
#
#   images/install.sh lifecycle-manager|skr-watcher|module-manager FOLDER
set -eu
image=$1 folder=$2
uv=${UV:-uv}
export UV_PROJECT_ENVIRONMENT="$folder"

case $image in
lifecycle-manager) packages="--package kyma-lifecycle-manager --package kyma-fleet-page" ;;
module-manager) packages="--package kyma-module-manager" ;;
skr-watcher) packages="--package kyma-skr-watcher" ;;
*)
  echo "unknown image '$image': expected lifecycle-manager, skr-watcher or module-manager" >&2
  exit 2
  ;;
esac
# shellcheck disable=SC2086 - several words
exec "$uv" sync --quiet --frozen --no-dev --no-editable --compile-bytecode --link-mode=copy $packages --extra tracing
