# nix run ./packaging/nix -- explain FILE, in a clone of the repository; or from elsewhere with its address and ?dir=packaging/nix
{
  description = "Explain why an AMD GPU hung or crashed";

  inputs.nixpkgs.url = "nixpkgs";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      forEach = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
    in
    {
      packages = forEach (pkgs: {
        default = pkgs.stdenv.mkDerivation {
          pname = "unhang";
          version = "0.3.0";
          src = ../..;
          nativeBuildInputs = with pkgs; [ meson ninja pkg-config python3 makeWrapper ];
          buildInputs = with pkgs; [ elfutils fuse3 jansson libarchive openssl sqlite systemdLibs zlib zstd ];
          postPatch = "patchShebangs tools";
          # /etc/unhang/watch.conf, which is installed outside of the prefix, is a matter of the machine's own configuration.
          installPhase = ''
            runHook preInstall
            DESTDIR=$TMPDIR/to meson install --no-rebuild
            mkdir -p $out
            cp -r $TMPDIR/to$out/. $out
            runHook postInstall
          '';
          # These are loaded when they are needed, by their names.
          postFixup = ''
            wrapProgram $out/bin/unhang --suffix LD_LIBRARY_PATH : ${pkgs.lib.makeLibraryPath (with pkgs; [ libarchive openssl sqlite systemdLibs ])}
          '';
          meta = {
            description = "Explain why an AMD GPU hung or crashed";
            license = pkgs.lib.licenses.mit;
            platforms = systems;
            mainProgram = "unhang";
          };
        };
      });
    };
}
