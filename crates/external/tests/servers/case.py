# A server over standard streams that a case makes behave badly: what stands between the two halves replaces what it
# does well.
import json, os, subprocess, sys, time

TOOLS = [{"name": "do", "description": "Does it.", "inputSchema": {"type": "object"}}]

def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()

def answer(request, result):
    send({"id": request["id"], "result": result})

def refuse(request, text):
    send({"id": request["id"], "error": {"code": -32000, "message": text}})

def text(text):
    return {"content": [{"type": "text", "text": text}]}

def start(request):
    answer(request, {
        "protocolVersion": request["params"]["protocolVersion"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "case", "version": "1"},
    })

def listed(request):
    answer(request, {"tools": TOOLS})

def call(request):
    answer(request, text("done"))

# CASE

for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        start(message)
    elif method == "tools/list":
        listed(message)
    elif method == "tools/call":
        call(message)
    elif method == "ping":
        answer(message, {})
