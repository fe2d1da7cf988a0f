"use strict";
// A file of its own rather than a script in the page, which the content policy would refuse.
window.addEventListener("load", function () {
  SwaggerUIBundle({
    url: "openapi.json",
    dom_id: "#swagger-ui",
    deepLinking: true,
    validatorUrl: null,
    presets: [SwaggerUIBundle.presets.apis],
  });
});
