"""A person signs in at another site, and signs a report off in their own name."""

from oidc_provider_mock import User, run_server_in_thread
from playwright.sync_api import expect

from tests.api.elsewhere.providers import api_of
from tests.api.service import finished, served


def test_from_the_provider_to_a_sign_off(browser, sqlite_url, tmp_path, pictures):
    secret = tmp_path / "secret"
    secret.write_text("of the client")
    ada = User(sub="ada-1", claims={"name": "Ada Lovelace", "groups": ["travellers", "auditors"]})
    with run_server_in_thread(user_claims=[ada], require_nonce=True) as server:
        issuer = f"http://localhost:{server.server_port}"
        settings = {"oidc_issuer": issuer, "oidc_client_secret_file": secret}
        with api_of(sqlite_url, tmp_path, **settings) as api, served(api) as address:
            writer = api.key_with("experiments:write", "experiments:read", project="acme")
            id_ = api.submit(key=writer)["id"]
            api.project_id = api.stored(id_).project_id
            report = f"/experiments/{finished(api, key=writer)}/report"
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(f"{address}{report}")
            expect(page.get_by_label("API key")).to_be_visible()
            page.screenshot(path=pictures / "sign-in-1440.png")
            page.set_viewport_size({"width": 390, "height": 844})
            page.screenshot(path=pictures / "sign-in-390.png")
            page.set_viewport_size({"width": 1440, "height": 900})
            page.get_by_role("link", name="Sign in at localhost").click()
            page.get_by_role("button", name="ada-1").click()
            expect(page.get_by_role("heading", name="In which project?")).to_be_visible()
            page.screenshot(path=pictures / "projects-1440.png")
            page.get_by_role("link", name="acme").click()
            page.get_by_role("button", name="ada-1").first.click()
            # Without a click: the session's cookie goes along from our own page.
            expect(page.get_by_role("heading", name="May it be released?")).to_be_visible()
            page.get_by_label("Decision").select_option("approved")
            page.get_by_label("Note").fill("read with the data owner")
            page.get_by_role("button", name="Sign off").click()
            expect(page.get_by_text("1. Approved by Ada Lovelace")).to_be_visible()
            expect(page.get_by_text(f"identity ada-1 at {issuer}")).to_be_visible()
            page.locator("#sign-offs").scroll_into_view_if_needed()
            page.screenshot(path=pictures / "signed-off-1440.png")
            page.goto(f"{address}/reports")
            page.get_by_role("button", name="Sign out").click()
            page.goto(f"{address}{report}")
            expect(page.get_by_role("link", name="Sign in at localhost")).to_be_visible()
            page.close()
