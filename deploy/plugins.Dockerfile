# An image with plugins of other packages, on top of the image of Sluice. Build it in the folder of your pipeline.yaml:
#
#   docker build -f plugins.Dockerfile --build-arg SLUICE_IMAGE=sluice:0.1.0 -t acme-gateway .
#
# The folder needs package.json, package-lock.json and pipeline.yaml, which `sluice plugin add` writes.
# A plugin that was added as a tarball needs this tarball in the folder itself.
ARG SLUICE_IMAGE=sluice
ARG BUILD_IMAGE=node:24-bookworm-slim
ARG BUILD_DIGEST=sha256:0e0ff40c39bc087845bfb27465a0df4ea419520094bc35842ff83dd8cbe6f9b6

FROM ${SLUICE_IMAGE} AS sluice

FROM ${BUILD_IMAGE}${BUILD_DIGEST:+@${BUILD_DIGEST}} AS plugins
COPY --from=sluice /app /app
WORKDIR /pipeline
COPY package.json package-lock.json pipeline.yaml *.tgz ./
# The gateway is a peer of its plugins. It comes from the image and not from the registry.
RUN npm ci --omit=dev --ignore-scripts --legacy-peer-deps --no-audit --no-fund && ln -sfn /app node_modules/sluice-gateway
# Fails if a plugin asks for more than its grants in pipeline.yaml. Variables that pipeline.yaml requires must be set here.
RUN node /app/src/main.js check --config pipeline.yaml

FROM sluice
COPY --from=plugins /pipeline /pipeline
ENV SLUICE_CONFIG=/pipeline/pipeline.yaml
