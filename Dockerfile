# Lasthop in a container: the wheel is built in one stage and installed in another, without Rust.
#   docker build -t lasthop .
#   docker run --rm -v "$PWD:/work" lasthop run sweep.toml --store results
FROM rust:1.90-slim-trixie AS build
# The newest pip and venv that the release has; nothing else is installed from it.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN python3 -m venv /build \
    && /build/bin/pip install --no-cache-dir "maturin==1.16.0" \
    && /build/bin/maturin build --release --locked --out /wheels

FROM python:3.13-slim-trixie
COPY --from=build /wheels /wheels
# The pinned dependencies are those of the wheel.
RUN pip install --no-cache-dir /wheels/*.whl \
    && rm -r /wheels \
    && useradd --create-home --uid 1000 lasthop
USER 1000
WORKDIR /work
ENTRYPOINT ["lasthop"]
CMD ["--help"]
