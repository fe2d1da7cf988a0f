# syntax=docker/dockerfile:1
# Two images from one wheel: `api` serves, migrates and sweeps without torch; `worker` trains.

FROM python:3.11-slim-bookworm AS wheel
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .


FROM python:3.11-slim-bookworm AS api
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    FEDAUDIT_DATA_DIR=/data
RUN useradd --system --uid 10001 --create-home fedaudit \
    && install --directory --owner fedaudit /data
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    pip install --no-cache-dir /wheels/*.whl
USER 10001
WORKDIR /home/fedaudit
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health/ready', timeout=4)"]
CMD ["python", "-P", "-m", "api", "--host", "0.0.0.0", "--port", "8000"]


# torch's own wheels carry the CUDA libraries: no CUDA base image is needed, and the driver comes
# from the host through the NVIDIA container toolkit. Where workers have no GPU, build with
# PIP_INDEX_URL set to an index of CPU builds: the image is several gigabytes smaller.
FROM api AS worker
ARG PIP_INDEX_URL
USER 0
RUN pip install --no-cache-dir "torch>=2.6,<2.14"
USER 10001
ENV OMP_NUM_THREADS=1
# A worker serves no port. It is well while it can reach a database whose schema it knows.
HEALTHCHECK --interval=60s --timeout=20s --start-period=30s --retries=3 \
    CMD ["python", "-P", "-m", "migrations", "current"]
CMD ["python", "-P", "-m", "workers", "--device", "cpu"]
