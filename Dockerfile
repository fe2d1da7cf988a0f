# syntax=docker/dockerfile:1
# Two images from one wheel: `api` serves, migrates and sweeps without torch; `worker` trains.

FROM python:3.11-slim-bookworm AS wheel
WORKDIR /source
# A compiler for the kernels of `fedaudit/native`; one library serves every Python, those below too.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .


FROM python:3.11-slim-bookworm AS api
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    FEDAUDIT_DATA_DIR=/data
# Pango and a font, with which reports are printed as PDF files.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        libpango-1.0-0 libpangoft2-1.0-0 fonts-dejavu-core \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --create-home fedaudit \
    && install --directory --owner fedaudit /data
# The wheel is the one built above, whatever its version.
# hadolint ignore=DL3013
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    pip install --no-cache-dir "$(echo /wheels/fedaudit-*.whl)[pdf]"
USER 10001
WORKDIR /home/fedaudit
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health/ready', timeout=4)"]
CMD ["python", "-P", "-m", "api", "--host", "0.0.0.0", "--port", "8000"]


# The CUDA base says to the container toolkit what the driver must support; torch's own wheels carry
# the CUDA libraries. Where workers have no GPU, build with TORCH_INDEX_URL set to an index of CPU
# builds: the image is several gigabytes smaller, and runs without a GPU.
FROM nvidia/cuda:12.8.1-base-ubuntu24.04 AS worker
ARG TORCH_INDEX_URL=""
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    OMP_NUM_THREADS=1 \
    PATH=/opt/fedaudit/bin:$PATH \
    FEDAUDIT_DATA_DIR=/data
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --create-home fedaudit \
    && install --directory --owner fedaudit /data \
    && python3 -m venv /opt/fedaudit
RUN PIP_INDEX_URL="$TORCH_INDEX_URL" pip install --no-cache-dir "torch>=2.6,<2.14"
# The wheel with the rest of the extra; the torch above is what it asks for.
# hadolint ignore=DL3013
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    pip install --no-cache-dir "$(echo /wheels/fedaudit-*.whl)[worker]"
USER 10001
WORKDIR /home/fedaudit
VOLUME /data
# A worker serves no port. It is well while its consumer listens, or works and keeps its lease, and
# it can reach a database whose schema it knows.
HEALTHCHECK --interval=60s --timeout=20s --start-period=30s --retries=3 \
    CMD ["python", "-P", "-m", "workers.health"]
CMD ["python", "-P", "-m", "workers", "--device", "cpu"]
