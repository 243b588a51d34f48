# One target for each image: lifecycle-manager (with klm), skr-watcher, module-manager (with the samples).
#
#   docker build --target lifecycle-manager --tag lifecycle-manager:0.1.0 .

# Pinned by version; to pin it by digest, use --build-arg PYTHON=python:3.13.15-slim-trixie@sha256:…
ARG PYTHON=python:3.13.15-slim-trixie

FROM ${PYTHON} AS build
COPY tools/images/uv.txt /tmp/uv.txt
RUN pip install --no-cache-dir --disable-pip-version-check --require-hashes --only-binary=:all: -r /tmp/uv.txt
WORKDIR /source
COPY . .

FROM build AS build-lifecycle-manager
RUN tools/images/install.sh lifecycle-manager /opt/kyma
FROM build AS build-skr-watcher
RUN tools/images/install.sh skr-watcher /opt/kyma
FROM build AS build-module-manager
RUN tools/images/install.sh module-manager /opt/kyma

FROM ${PYTHON} AS base
# The root file system is mounted read-only.
ENV PATH=/opt/kyma/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# The programs need none of these, so the image needs no updates of them.
RUN pip uninstall --yes --quiet --root-user-action=ignore setuptools wheel pip
WORKDIR /
USER 10001:10001

FROM base AS lifecycle-manager
COPY --from=build-lifecycle-manager /opt/kyma /opt/kyma
ENTRYPOINT ["klm"]
CMD ["run"]

FROM base AS skr-watcher
COPY --from=build-skr-watcher /opt/kyma /opt/kyma
ENTRYPOINT ["skr-watcher"]

FROM base AS module-manager
COPY --from=build-module-manager /opt/kyma /opt/kyma
ENTRYPOINT ["kyma-module-manager"]
