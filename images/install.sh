#!/bin/sh
# Installs what one image holds from the lock into an empty folder: a venv with the program under bin/.
# The Dockerfile runs it, and so does its test, so that the one is known to work wherever the other passes.
#
#   images/install.sh lifecycle-manager|skr-watcher|module-manager FOLDER
set -eu
image=$1 folder=$2
uv=${UV:-uv}
export UV_PROJECT_ENVIRONMENT="$folder"

case $image in
lifecycle-manager) package=kyma-lifecycle-manager ;;
module-manager) package=kyma-module-manager ;;
skr-watcher) package=kyma-skr-watcher ;;
*)
  echo "there is no image $image" >&2
  exit 2
  ;;
esac
exec "$uv" sync --quiet --frozen --no-dev --no-editable --compile-bytecode --link-mode=copy --package "$package"
