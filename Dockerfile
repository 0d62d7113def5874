# Two stages: Debian builds, and only what the program needs is carried over. There is no shell, no package manager and
# no account file in the result; one binary and the shared libraries that it names, all of them Debian's own.
#
#     docker build -t attentiond .
#     docker run --rm -p 8080:8080 attentiond
ARG BASE=debian:trixie-slim
FROM ${BASE} AS build
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        gcc libc6-dev make libmicrohttpd-dev libjansson-dev zlib1g-dev libzstd-dev libopenblas-pthread-dev \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
# of the program; without it, what .git of the build context says
ARG REVISION
# OpenBLAS is linked from its archive: two matrix products of it are used, and the shared library would bring LAPACK
# and the Fortran runtime along. It picks its kernels at run time, as ours are picked, so the image fits any CPU of the
# architecture; -march=native must never stand here.
RUN make -j"$(nproc)" BLAS=-l:libopenblas.a \
 && make install BLAS=-l:libopenblas.a PREFIX=/usr/local DESTDIR=/image \
 && strip /image/usr/local/bin/attentiond \
 && rm -r /image/usr/local/share/man /image/usr/local/lib \
 && sh docker/copy-libraries.sh /image/usr/local/bin/attentiond /image libopenblas-pthread-dev \
 && install -D -m 644 LICENSE /image/usr/local/share/licenses/attentiond

FROM scratch
ARG BASE=debian:trixie-slim
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG CREATED=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="attentiond" \
      org.opencontainers.image.description="Exact scaled dot-product and multi-head attention over HTTP" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.base.name="${BASE}"
COPY --from=build /image /
# parallelism is the program's own; OpenBLAS need not start threads when it is loaded
ENV ATTENTIOND_HOST=0.0.0.0 \
    OPENBLAS_NUM_THREADS=1
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["/usr/local/bin/attentiond", "health"]
ENTRYPOINT ["/usr/local/bin/attentiond"]
