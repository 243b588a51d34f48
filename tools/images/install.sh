#!/bin/sh
# Installs the contents of one image from the lock into an empty folder: a venv with the wheel of the program and its
# dependencies. The Dockerfile, `make images` and the test (tests/integration/images) all run this script. Two runs from
# the same sources write the same bytes, wherever the folder is.
#
#   tools/images/install.sh lifecycle-manager|skr-watcher|module-manager FOLDER
set -eu
image=$1 folder=$2
uv=${UV:-uv}
export UV_PROJECT_ENVIRONMENT="$folder" PYTHONHASHSEED=0

case $image in
lifecycle-manager) # with every command of klm
  packages="--package kyma-lifecycle-manager --package kyma-fleet-page --package kyma-fleet
    --package kyma-module-manager --package kyma-local-clusters --package kyma-lifecycle-manager-demo
    --package kyma-takeover"
  ;;
module-manager) packages="--package kyma-module-manager" ;;
skr-watcher) packages="--package kyma-skr-watcher" ;;
*)
  echo "unknown image '$image': expected lifecycle-manager, skr-watcher or module-manager" >&2
  exit 2
  ;;
esac
# shellcheck disable=SC2086 - several words
"$uv" sync --quiet --frozen --no-dev --no-editable --link-mode=copy $packages --extra tracing

# Where and when the packages were built
find "$folder" \( -name uv_cache.json -o -name direct_url.json -o -name '__pycache__' \) -prune -exec rm -rf {} +
find "$folder" -path '*.dist-info/RECORD' -exec sed -i '/\/uv_cache\.json,/d; /\/direct_url\.json,/d; /^\.\.\/.*\/bin\//d' {} +
rm -f "$folder"/bin/activate* "$folder"/bin/deactivate* "$folder"/.lock
"$folder"/bin/python -m compileall -q -s "$folder" -p /opt/kyma --invalidation-mode unchecked-hash "$folder"/lib
