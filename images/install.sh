#!/bin/sh
# Installs what one image holds from the lock into an empty folder: a venv with the program under bin/.
# The Dockerfile runs it, and so does its test, so that the one is known to work wherever the other passes.
#
#   images/install.sh lifecycle-manager|skr-watcher|module-manager FOLDER
set -eu
image=$1 folder=$2
uv=${UV:-uv}
export UV_PROJECT_ENVIRONMENT="$folder"
sync() { "$uv" sync --quiet --frozen --no-dev --no-editable --compile-bytecode --link-mode=copy "$@"; }

case $image in
lifecycle-manager)
  sync --extra control-plane
  ;;
module-manager)
  sync --package kyma-module-manager
  ;;
skr-watcher)
  # The Watcher and what it imports, and not one module more: it runs in clusters of users.
  sync --no-install-project
  packages=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  cp -R watcher certs guarded_http "$packages/"
  find "$packages/watcher" "$packages/certs" "$packages/guarded_http" -name __pycache__ -prune -exec rm -rf {} +
  "$folder/bin/python" -m compileall -q "$packages/watcher" "$packages/certs" "$packages/guarded_http"
  printf '#!%s/bin/python\nfrom watcher.main import main\n\nmain()\n' "$folder" > "$folder/bin/skr-watcher"
  chmod 755 "$folder/bin/skr-watcher"
  ;;
*)
  echo "there is no image $image" >&2
  exit 2
  ;;
esac
