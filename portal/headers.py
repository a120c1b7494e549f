"""What browsers are told with every answer, beside Django's own headers and the content security policy."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

UNUSED = (
    *("accelerometer", "autoplay", "camera", "display-capture", "encrypted-media", "fullscreen", "geolocation"),
    *("gyroscope", "magnetometer", "microphone", "midi", "payment", "picture-in-picture", "usb", "xr-spatial-tracking"),
)
"""What a browser can do and no page of ours asks for."""
HEADERS = {
    "Permissions-Policy": ", ".join(f"{name}=()" for name in UNUSED),
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",  # Django's own comes too late for what is refused before it
    "X-Permitted-Cross-Domain-Policies": "none",
    # Who uses this machine next finds nothing: not by the back button, and not in a proxy. Static files say otherwise.
    "Cache-Control": "private, no-store",
}


def guard(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware, the outermost: adds HEADERS where the answer has not said it by itself."""

    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return answer
