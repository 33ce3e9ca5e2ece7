# Included by the scripts that unpack packages of other releases of Debian.

# debian_mirror: print the address from which this machine gets Debian's packages.
debian_mirror() {
	targets() { apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "$@"; }
	mirror=$(targets 'Origin: Debian' 'Label: Debian' | head -n 1)
	# Before the first update, apt does not know the origins.
	[ -n "$mirror" ] || mirror=$(targets | grep '/debian/*$' | head -n 1)
	[ -n "$mirror" ] || { echo "$0: apt has no source of Debian's packages" >&2; return 1; }
	echo "$mirror"
}

# debian_sources SUITE: print the sources of a release, at the mirror of this machine.
debian_sources() {
	mirror=$(debian_mirror) || return 1
	cat <<-END
		Types: deb
		URIs: $mirror
		Suites: $1
		Components: main
		Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
	END
}
