# Two stages: the build needs a C++ toolchain because DuckDB is linked in; the image needs only
# glibc and libstdc++.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN go build -trimpath -ldflags='-s -w' -o /tidemark ./cmd/tidemark

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends libstdc++6 ca-certificates \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --home-dir /data --create-home tidemark
COPY --from=build /tidemark /usr/local/bin/tidemark
USER tidemark
VOLUME /data
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["tidemark", "healthcheck"]
ENTRYPOINT ["tidemark"]
CMD ["serve", "--data", "/data"]
