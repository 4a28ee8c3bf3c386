# docker build -t crosswind . && docker run --rm -it -v "$PWD:/study" crosswind demo
FROM python:3.13-slim AS build
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.13-slim
COPY constraints.txt /tmp/constraints.txt
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --constraint /tmp/constraints.txt /wheels/*.whl \
    && rm -r /wheels /tmp/constraints.txt \
    && useradd --create-home --uid 1000 crosswind \
    && install --directory --owner crosswind /study
USER 1000
ENV HOME=/home/crosswind TERM=xterm-256color COLORTERM=truecolor
VOLUME /study
WORKDIR /study
ENTRYPOINT ["crosswind"]
