# For a tap of your own: it installs wheels, which homebrew-core does not accept.
class KubeHindcast < Formula
  include Language::Python::Virtualenv

  desc "Replays Kubernetes policies over recorded audit logs"
  homepage "@@{url}"
  url "@@{url}/@@{wheel}", using: :nounzip
  version "@@{version}"
  sha256 "@@{wheel_sha256}"
  license "Apache-2.0"

  depends_on "python@3.13"

  resource "constraints" do
    url "@@{url}/constraints.txt"
    sha256 "@@{constraints_sha256}"
  end

  def install
    resource("constraints").stage(buildpath)
    system "python3.13", "-m", "venv", libexec
    system libexec/"bin/python", "-m", "pip", "install", "-c", buildpath/"constraints.txt", buildpath/"@@{wheel}"
    bin.install_symlink libexec/"bin/hindcast", libexec/"bin/kubectl-hindcast"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/hindcast --version")
  end
end
