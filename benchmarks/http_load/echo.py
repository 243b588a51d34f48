"""The peer: a FastAPI echo on uvicorn, tuned for speed. Arguments: port, cert, key."""

import sys

import uvicorn
from fastapi import FastAPI, Request, Response

app = FastAPI()


@app.post("/validate/{manager}")
async def echo(request: Request) -> Response:
    """Return the body of the request."""
    return Response(await request.body(), media_type="application/json")


if __name__ == "__main__":
    port, cert, key = sys.argv[1:4]
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=int(port),
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
        ssl_certfile=cert,
        ssl_keyfile=key,
    )
